#include "worker/agent/outbox.h"

#include <algorithm>
#include <utility>

namespace am::agent {

namespace v1 = amctl::v1;

namespace {

bool IsCheckpoint(const v1::AgentMessage& message) {
  return message.has_rank_event() && message.rank_event().type() == v1::RankEvent::CHECKPOINT_DONE;
}

}  // namespace

void Outbox::Connected(AgentLink& link, v1::AgentMessage hello) {
  link_ = &link;
  for (const auto& [attempt, messages] : retained_) {
    v1::AttemptRef* known = hello.mutable_hello()->add_attempts();
    known->set_job(attempt.first);
    known->set_attempt(attempt.second);
  }
  link_->Send(std::move(hello));
  for (const auto& [attempt, messages] : retained_) {
    for (const v1::AgentMessage& message : messages) link_->Send(message);
  }
  for (v1::AgentMessage& message : std::exchange(news_, {})) link_->Send(std::move(message));
  news_bytes_ = 0;
}

void Outbox::Begin(const AttemptKey& attempt) { retained_[attempt]; }

void Outbox::TellState(const AttemptKey& attempt, v1::AgentMessage message) {
  std::vector<v1::AgentMessage>& messages = retained_[attempt];
  // Only the last one is of use to somebody who comes later.
  if (IsCheckpoint(message)) std::erase_if(messages, IsCheckpoint);
  messages.push_back(message);
  if (link_ != nullptr) link_->Send(std::move(message));
}

void Outbox::TellNews(v1::AgentMessage message) {
  if (link_ != nullptr) return link_->Send(std::move(message));
  news_bytes_ += message.ByteSizeLong();
  news_.push_back(std::move(message));
  while (news_bytes_ > max_news_bytes_) {
    news_bytes_ -= news_.front().ByteSizeLong();
    news_.pop_front();
  }
}

}  // namespace am::agent
