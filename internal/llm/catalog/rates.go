package catalog

import (
	"errors"

	"parley/internal/llm"
)

// unset is a price that is not known.
const unset = -1

// million is how many tokens a price of the table and of override files is for.
const million = 1e6

// rates are the prices of one step, in USD per million tokens.
type rates struct {
	from          int64 // tokens of the prompt above which they hold; 0 = always
	input, output float64
	read, write   float64 // prompt cache; unset = as input
	hour          float64 // writing for an hour; unset = as write
}

// prices makes the price list of steps in ascending order, and the one with a
// cache of an hour; nil if that is the same.
func prices(steps []rates) (price, hour *llm.Price) {
	differs := false
	for i := len(steps) - 1; i >= 0; i-- {
		p := steps[i].price()
		h := p
		if steps[i].hour != unset {
			h.CacheWrite = steps[i].hour / million
			differs = differs || h.CacheWrite != p.CacheWrite
		}
		if i+1 < len(steps) {
			p.Long, p.LongFrom = price, steps[i+1].from
			h.Long, h.LongFrom = hour, steps[i+1].from
		}
		price, hour = &p, &h
	}
	if !differs {
		hour = nil
	}
	return price, hour
}

// ascending checks the order of steps.
func ascending(steps []rates) error {
	for i := 1; i < len(steps); i++ {
		if steps[i].from <= steps[i-1].from {
			return errors.New("the steps of its prices are not in ascending order")
		}
	}
	return nil
}

// price is a step alone. What is not said of the cache costs what input costs:
// there is no discount unless the table has one.
func (r rates) price() llm.Price {
	p := llm.Price{Input: r.input / million, Output: r.output / million, CacheRead: r.input / million, CacheWrite: r.input / million}
	if r.read != unset {
		p.CacheRead = r.read / million
	}
	if r.write != unset {
		p.CacheWrite = r.write / million
	}
	return p
}

// ratesOf is the inverse of prices.
func ratesOf(price, hour *llm.Price) []rates {
	var steps []rates
	from := int64(0)
	for p := price; p != nil; p = p.Long {
		r := rates{from: from, input: p.Input * million, output: p.Output * million, read: unset, write: unset, hour: unset}
		if p.CacheRead != p.Input {
			r.read = p.CacheRead * million
		}
		if p.CacheWrite != p.Input {
			r.write = p.CacheWrite * million
		}
		if hour != nil {
			if hour.CacheWrite != p.CacheWrite {
				r.hour = hour.CacheWrite * million
			}
			hour = hour.Long
		}
		steps, from = append(steps, r), p.LongFrom
	}
	return steps
}
