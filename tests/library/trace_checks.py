"""What a trace of METAC_TRACE must be: Chrome's "Trace Event Format" as Perfetto reads it, and what a session must tell."""
import collections
import json
import re

PHASES = {"X": {"dur"}, "i": {"s"}, "M": {"args"}}  # the ones that metac writes, and what each has besides


def ns(microseconds):
    return round(microseconds * 1000)


def checked_events(events):
    """The events of a trace, each of which has all that the format asks for; an exception where it is no trace."""
    if not isinstance(events, list) or not events:
        raise RuntimeError("no array of events")
    for event in events:
        phase = event.get("ph")
        missing = {"name", "cat", "ts", "pid", "tid", *PHASES.get(phase, ["a phase that is known"])} - set(event)
        if missing:
            raise RuntimeError(f"{event} lacks {sorted(missing)}")
        for field, kind in (("name", str), ("ts", float), ("pid", int), ("tid", int), ("dur", float), ("args", dict)):
            if field in event and not isinstance(event[field], (kind, int) if kind is float else kind):
                raise RuntimeError(f"{event}: {field} is no {kind.__name__}")
        if event["ts"] < 0 or event.get("dur", 0) < 0 or event.get("s", "t") not in "tpg":
            raise RuntimeError(f"{event} is out of range")
        if phase == "M" and not event["args"].get("name"):
            raise RuntimeError(f"{event} names nothing")
    if len({event["pid"] for event in events}) != 1:
        raise RuntimeError("events of several processes")
    return events


def parents_of(events):
    """For each duration the one that it lies in, by position; an exception where two of a thread overlap otherwise."""
    threads, parents = collections.defaultdict(list), {}
    for at, event in enumerate(events):
        if event["ph"] == "X":
            begin = ns(event["ts"])
            threads[event["tid"]].append((begin, -(begin + ns(event["dur"])), -at))  # the outer one is written later
    for spans in threads.values():
        stack = []
        for begin, minus_end, minus_at in sorted(spans):
            while stack and -stack[-1][1] <= begin and not (-stack[-1][1] == begin == -minus_end):
                stack.pop()
            if stack and -minus_end > -stack[-1][1]:
                raise RuntimeError(f"{events[-minus_at]} ends after {events[-stack[-1][2]]}, in which it began")
            parents[-minus_at] = events[-stack[-1][2]] if stack else None
            stack.append((begin, minus_end, minus_at))
    return parents


def check_session_trace(path):
    """A trace of tests/library/user/new_shapes.cpp. Returns what was seen, for people."""
    return check_session_events(checked_events(json.loads(path.read_text())))


def check_session_events(events):
    parents = parents_of(events)
    named = collections.defaultdict(list)
    for at, event in enumerate(events):
        name = event["name"]
        kind = "compile kernels" if name.startswith("compile ") and name.endswith(" kernels") else name
        named["kernel" if event["cat"] == "kernel" else kind].append((event, parents.get(at)))
    made = named["make the open program"] + named["specialise"]
    for wanted in ("make the open program", "specialise", "lower", "passes", "prepare weights", "kernels", "link kernels",
                   "run the open program", "run a specialisation", "kernel", "set weights"):
        if not named[wanted]:
            raise RuntimeError(f"no '{wanted}' in the trace; there are {sorted(named)}")
    for event, _ in made:
        if not event["args"].get("reason") or not event["args"].get("for"):
            raise RuntimeError(f"{event} has no reason")
    if not any(re.fullmatch("the shape came [0-9]+ times", event["args"]["reason"]) for event, _ in named["specialise"]):
        raise RuntimeError("no shape was compiled because it came again")
    found = len(named["the program is on disk"])  # one that was dropped and made again
    for part in ("lower", "passes", "kernels"):
        if any(parent not in [event for event, _ in made] for _, parent in named[part]):
            raise RuntimeError(f"'{part}' of no program")
        if len(named[part]) + (0 if part == "kernels" else found) != len(made):
            raise RuntimeError(f"{len(named[part])} times '{part}' for {len(made)} programs, of which {found} were found")
    if any(parent is None or not parent["name"].endswith(" steps") for _, parent in named["kernel"]):
        raise RuntimeError("a kernel outside of a run")
    runners = {event["tid"] for event, _ in named["kernel"]}
    if len(runners) < 2:
        raise RuntimeError("two threads ran the model, the trace has kernels of one")
    behind = {event["tid"] for event in events if event["ph"] == "M" and event["args"]["name"] == "compiles behind"}
    if not any(event["tid"] in behind for event, _ in named["specialise"]):
        raise RuntimeError("nothing was compiled by a thread of its own")
    advice = [event["args"].get("advice", "") for event, _ in named["shapes do not repeat"]]
    if len(advice) != 1 or "dims that change: n" not in advice[0]:
        raise RuntimeError(f"20 shapes that never repeat: the advice is {advice}")
    return f"{len(events)} events of {len({event['tid'] for event in events})} threads, {len(made)} programs made"


def unnoticed_faults(path):
    """What can be wrong with a good trace and is not noticed: the checks' own test."""
    def spoil(change):
        events = json.loads(path.read_text())
        change(events)
        try:
            check_session_events(checked_events(events))
        except RuntimeError:
            return False
        return True

    def first(events, name):
        return next(event for event in events if event["name"] == name)

    def without(name):
        return lambda events: events.__setitem__(slice(None), [event for event in events if event["name"] != name])

    changes = {
        "no thread": lambda events: first(events, "lower").pop("tid"),
        "another process": lambda events: first(events, "lower").update(pid=1),
        "a phase that nobody knows": lambda events: first(events, "lower").update(ph="Q"),
        "a duration below 0": lambda events: first(events, "lower").update(dur=-1.0),
        "a part that ends after its whole": lambda events: first(events, "lower").update(dur=1e9),
        "a compilation without a reason": lambda events: first(events, "specialise")["args"].pop("reason"),
        "a kernel outside of a run": lambda events: next(e for e in events if e["cat"] == "kernel").update(tid=1),
        "no passes": without("passes"),
        "no name of the thread": without("thread_name"),
        "no advice": without("shapes do not repeat"),
    }
    return [name for name, change in changes.items() if spoil(change)]
