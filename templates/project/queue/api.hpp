// A batching queue (@name@_queue_create): any thread may run requests, which threads of the queue's put together into batches.
class Queue {
 public:
  // The size of the options is set here. The options of its contexts may be given beside them.
  explicit Queue(@name@_queue_options options = {}) {
    options.size = sizeof options;
    if (const @name@_status status = @name@_queue_create(&options, &queue_); status != @NAME@_OK) {
      const Error error(status, @name@_queue_last_error(queue_));
      @name@_queue_destroy(queue_);
      throw error;
    }
  }
  ~Queue() { @name@_queue_destroy(queue_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // A request that was submitted; it ends before its queue. It is released with this.
  class Request {
   public:
    Request(Request&& other) noexcept : queue_(other.queue_), ticket_(std::exchange(other.ticket_, 0)) {}
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;
    ~Request() { @name@_queue_release(queue_->queue_, ticket_); }
    // Outputs are there when it returns; throws what Queue::run() would.
    void wait() { queue_->check(@name@_queue_wait(queue_->queue_, ticket_)); }
    // Whether wait() would return at once.
    bool is_done() { return @name@_queue_poll(queue_->queue_, ticket_) != @NAME@_BUSY; }
    void cancel() { queue_->check(@name@_queue_cancel(queue_->queue_, ticket_)); }

   private:
    friend class Queue;
    explicit Request(Queue* queue) : queue_(queue) {}
    Queue* queue_;
    int64_t ticket_ = 0;
  };

  // Waits for the answer, in memory that every output names.
  void run(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    check(@name@_queue_run(queue_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size())));
  }
  // Does not wait. The inputs' data and `outputs` are the queue's until the request is done; outputs may be empty, and then have memory
  // until the request is gone.
  [[nodiscard]] Request submit(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
    Request request(this);
    check(@name@_queue_submit(queue_, inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()), &request.ticket_));
    return request;
  }
  // No more requests; returns when those that there are have been run (drain) or cancelled.
  void stop(bool drain = true) { check(@name@_queue_stop(queue_, drain)); }
  @name@_queue_counters counters() const {
    @name@_queue_counters counters{};
    counters.size = sizeof counters;
    check(@name@_queue_count(queue_, &counters));
    return counters;
  }
  @name@_queue* get() const { return queue_; }

 private:
  void check(@name@_status status) const {
    if (status != @NAME@_OK) throw Error(status, @name@_queue_last_error(queue_));
  }
  @name@_queue* queue_ = nullptr;
};

