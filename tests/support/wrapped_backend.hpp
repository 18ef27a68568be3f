// SPDX-License-Identifier: BSD-3-Clause
// wrapped_backend.hpp: a backend, and a run, that do what others do: tests change one thing in
// them. It knows no kind of backend.
#pragma once
#include <memory>
#include <utility>

#include "run/backend.hpp"

namespace fleet::test {

class WrappedExecution : public Execution {
 public:
  explicit WrappedExecution(std::unique_ptr<Execution> inner) : inner_(std::move(inner)) {}

  bool is_whole() const override { return inner_->is_whole(); }
  void* slot(const Where& where) override { return inner_->slot(where); }
  void copy(TaskId id, const View& from, const View& to) override { inner_->copy(id, from, to); }
  void launch(TaskId id, const Launch& launch) override { inner_->launch(id, launch); }
  Trace finish() override { return inner_->finish(); }

 private:
  const std::unique_ptr<Execution> inner_;
};

/// It does not forward the functions that have a default.
class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const Machine& machine() const override { return inner_->machine(); }
  std::unique_ptr<Execution> begin(const Plan& plan, const Binding& binding,
                                   std::uint64_t serial) override {
    return inner_->begin(plan, binding, serial);
  }
  void* allocate(DeviceId location, std::int64_t bytes) override {
    return inner_->allocate(location, bytes);
  }
  void release(DeviceId location, void* data) override { inner_->release(location, data); }
  void transfer(DeviceId to_location, const View& to, DeviceId from_location, const View& from,
                std::int64_t element_bytes) override {
    inner_->transfer(to_location, to, from_location, from, element_bytes);
  }
  void trim() override { inner_->trim(); }
  std::int64_t available_bytes(DeviceId location) override {
    return inner_->available_bytes(location);
  }

 private:
  const std::unique_ptr<Backend> inner_;
};

}  // namespace fleet::test
