// SPDX-License-Identifier: BSD-3-Clause
// cliques.cpp: grows a port from each slowdown that no port explains yet. It must not know how
// slowdowns are measured.
#include "probe/cliques.hpp"

#include <optional>
#include <set>

#include "base/sizes.hpp"

namespace fleet {
namespace {

/// A port slows a pair down for certain if the pair needs this many times its capacity: the links
/// do not always finish together, and latency takes its part.
constexpr double kCertain = 1.2;

class Grower {
 public:
  Grower(const PairCapacities& pairs, const Machine& machine, double same)
      : pairs_(pairs), machine_(machine), same_(same), slowed_by_(machine.links.size()) {
    for (const auto& [pair, capacity] : pairs)
      if (is_limit(pair, capacity)) {
        slowed_by_[index(pair.first)].push_back(pair.second);
        slowed_by_[index(pair.second)].push_back(pair.first);
      }
  }

  Cliques all() {
    for (const auto& [pair, capacity] : pairs_)
      if (is_limit(pair, capacity) && !is_explained(pair, capacity))
        found_.ports.push_back(grow(pair, capacity));
    found_.open.assign(open_.begin(), open_.end());
    return std::move(found_);
  }

 private:
  /// doubtful: the port would slow the pair down, but by so little that it may not be seen.
  enum class Verdict { member, perhaps, doubtful, stranger, open };

  double needed(const LinkPair& pair) const {
    return machine_.links[index(pair.first)].bytes_per_s +
           machine_.links[index(pair.second)].bytes_per_s;
  }
  bool joins_host(LinkId id) const {
    const Link& link = machine_.links[index(id)];
    return on_host(link.source) || on_host(link.target);
  }
  bool is_limit(const LinkPair& pair, double capacity) const { return capacity < needed(pair); }
  bool is_explained(const LinkPair& pair, double capacity) const;
  Verdict judge(const LinkPair& pair, double capacity) const;
  SharedPort grow(const LinkPair& seed, double capacity);
  std::optional<LinkId> next_member(const std::vector<LinkId>& members, double capacity);

  const PairCapacities& pairs_;
  const Machine& machine_;
  double same_;
  std::vector<std::vector<LinkId>> slowed_by_;  ///< by link
  std::set<LinkPair> open_;
  Cliques found_;
};

bool Grower::is_explained(const LinkPair& pair, double capacity) const {
  return std::ranges::any_of(found_.ports, [&](const SharedPort& port) {
    return std::ranges::binary_search(port.links, pair.first) &&
           std::ranges::binary_search(port.links, pair.second) &&
           port.capacity <= capacity * same_ && capacity <= port.capacity * same_;
  });
}

/// Whether both links of the pair may take a port of this capacity.
Grower::Verdict Grower::judge(const LinkPair& pair, double capacity) const {
  const bool certain = needed(pair) > kCertain * capacity;
  const auto known = pairs_.find(pair);
  if (known == pairs_.end()) return certain ? Verdict::open : Verdict::perhaps;
  if (!is_limit(pair, known->second) || known->second > capacity * same_)
    return certain                           ? Verdict::stranger
           : needed(pair) > same_ * capacity ? Verdict::doubtful
                                             : Verdict::perhaps;
  return known->second * same_ < capacity ? Verdict::perhaps : Verdict::member;
}

/// The link with the most slowdowns by members, if no member speaks against it, and no more of them
/// are doubtful: pairs that a port hardly slows down are seen by chance, or not seen.
std::optional<LinkId> Grower::next_member(const std::vector<LinkId>& members, double capacity) {
  const bool has_host = std::ranges::any_of(members, [&](LinkId id) { return joins_host(id); });
  std::map<LinkId, int> slowdowns;
  for (const LinkId member : members)
    for (const LinkId other : slowed_by_[index(member)])
      if (judge(pair_of(member, other), capacity) == Verdict::member &&
          (!has_host || joins_host(member)))
        ++slowdowns[other];
  std::optional<LinkId> best;
  for (const auto& [link, count] : slowdowns) {
    if (std::ranges::find(members, link) != members.end()) continue;
    std::optional<LinkPair> open;
    bool fits = true;
    int doubtful = 0;
    for (const LinkId member : members) {
      const Verdict verdict = judge(pair_of(member, link), capacity);
      fits = fits && verdict != Verdict::stranger;
      if (verdict == Verdict::doubtful) ++doubtful;
      if (verdict == Verdict::open && !open) open = pair_of(member, link);
    }
    if (!fits || doubtful > count) continue;
    if (open)
      open_.insert(*open);
    else if (!best || count > slowdowns[*best])
      best = link;
  }
  return best;
}

SharedPort Grower::grow(const LinkPair& seed, double capacity) {
  std::vector<LinkId> members{seed.first, seed.second};
  while (const auto next = next_member(members, capacity)) members.push_back(*next);
  std::ranges::sort(members);
  return {.links = std::move(members), .capacity = capacity};
}

}  // namespace

Cliques cliques_of(const PairCapacities& pairs, const Machine& machine, double same) {
  return Grower(pairs, machine, same).all();
}

}  // namespace fleet
