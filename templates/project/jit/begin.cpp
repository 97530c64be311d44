  if (context->usable)
    context->specialised.begin({given.metac, context->variant->cpu, static_cast<int32_t>(context->variant - variants), context->pool.workers(), given.most_specialisations, &context->weights, context->prepared.get()},
                               @NAME@_INPUTS, foreign ? "the context has a thread pool of the caller's" : given.pin != 0 || given.fixed_split != 0 ? "the context's threads are pinned, or its work is split the same way in every run" :
                               given.priority != 0 ? "the context's calls have a priority of their own" :
                               copy ? "the context has a copy of its weights" : nullptr);
