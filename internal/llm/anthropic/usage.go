package anthropic

import (
	"encoding/json"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// What writing to the prompt cache costs, as multiples of the input price.
const (
	minutesWrite = 1.25
	hourWrite    = 2
)

// prices are a model's prices by the retention of what is written to the cache.
// The tables know one price for writing, which is mostly that of 5 minutes; the
// hour's is twice the input price.
type prices struct{ minutes, hour *llm.Price }

func (p prices) known() bool { return p.minutes != nil }

// pricesOf derives both from a table's prices, whichever of the two they hold,
// if any.
func pricesOf(p *llm.Price) prices {
	if p == nil {
		return prices{}
	}
	minutes, hour := *p, *p
	hour.CacheWrite = max(p.CacheWrite, hourWrite*p.Input)
	switch {
	case p.CacheWrite <= 0:
		minutes.CacheWrite = minutesWrite * p.Input
	case p.CacheWrite >= hourWrite*p.Input:
		minutes.CacheWrite = p.CacheWrite * minutesWrite / hourWrite
	}
	if p.Long != nil {
		long := pricesOf(p.Long)
		minutes.Long, hour.Long = long.minutes, long.hour
	}
	return prices{minutes: &minutes, hour: &hour}
}

// usage is what the endpoint says a call used. Later objects of a stream repeat
// or correct the counts of earlier ones; what they leave out stays.
type usage struct {
	known                              bool
	input, output, read, write, thinks int64
	hour                               int64    // of write: tokens kept for an hour; -1 = not said
	cost                               *float64 // USD, a gateway's own figure
}

func (u *usage) take(raw json.RawMessage) {
	o := wire.Object(raw)
	if len(o) == 0 {
		return
	}
	if !u.known {
		u.known, u.hour = true, -1
	}
	for _, f := range []struct {
		to  *int64
		key string
	}{{&u.input, "input_tokens"}, {&u.output, "output_tokens"}, {&u.read, "cache_read_input_tokens"}, {&u.write, "cache_creation_input_tokens"}} {
		if _, isNumber := wire.Number(o[f.key]); isNumber {
			*f.to = wire.Count(o[f.key])
		}
	}
	if details := wire.Object(o["output_tokens_details"]); details != nil {
		u.thinks = wire.Count(details["thinking_tokens"])
	}
	if created := wire.Object(o["cache_creation"]); created != nil {
		u.hour = wire.Count(created["ephemeral_1h_input_tokens"])
	}
	if c := wire.Cost(o["cost"]); c != nil {
		u.cost = c
	}
}

// account turns the endpoint's counts into ours. ttl says that the request asked
// for an hour.
func (m *Model) account(u usage, responseID string, ttl bool) (wire.Usage, *float64) {
	counts := wire.Counts{Prompt: u.input + u.read + u.write, Completion: u.output, Read: u.read, Write: u.write,
		Reasoning: min(u.thinks, u.output)}
	out, _ := m.cfg.Account(counts, responseID, false, nil)
	if u.cost != nil || !u.known || !m.prices.known() {
		return out, u.cost
	}
	cost := m.prices.minutes.Cost(out)
	if u.write > 0 {
		hour := u.hour
		if hour < 0 {
			hour = 0
			if ttl {
				hour = u.write
			}
		}
		share := float64(min(hour, u.write)) / float64(u.write)
		cost += (m.prices.hour.Cost(out) - cost) * share
	}
	return out, &cost
}
