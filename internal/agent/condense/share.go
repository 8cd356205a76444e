package condense

import "math"

// share divides a budget among texts: the largest unit for which all texts, each
// cut to its weight times the unit, fit. sizes and weights are parallel; weights
// are >= 1. It returns what each text may have.
func share(sizes, weights []int, budget int) []int {
	low, high := 0, 0 // the largest unit is in between
	for _, n := range sizes {
		high = max(high, n)
	}
	for low < high {
		unit := low + (high-low+1)/2
		if takes(sizes, weights, unit) <= budget {
			low = unit
		} else {
			high = unit - 1
		}
	}
	out := make([]int, len(sizes))
	for i, n := range sizes {
		out[i] = min(n, times(weights[i], low))
	}
	return out
}

func takes(sizes, weights []int, unit int) int {
	sum := 0
	for i, n := range sizes {
		sum += min(n, times(weights[i], unit))
	}
	return sum
}

// times multiplies without overflow.
func times(weight, unit int) int {
	if unit > math.MaxInt/weight {
		return math.MaxInt
	}
	return weight * unit
}
