package conversation

import (
	"fmt"
	"math"
)

// Money is an amount in billionths of a US dollar. Costs are added and compared
// in it, so that a ceiling holds to the last digit; 9 billion dollars fit.
type Money int64

// USD is one dollar.
const USD Money = 1e9

// MoneyOf rounds an amount in dollars to the nearest unit. What is negative or
// no number counts as 0, what does not fit as the largest amount.
func MoneyOf(usd float64) Money {
	if math.IsNaN(usd) || usd <= 0 {
		return 0
	}
	if usd >= math.MaxInt64/float64(USD) {
		return math.MaxInt64
	}
	// What the product was rounded by decides as well: else large amounts do not come
	// back as they were.
	product := usd * float64(USD)
	rest := math.FMA(usd, float64(USD), -product)
	down := math.Floor(product)
	return Money(down) + Money(math.Round(product-down+rest))
}

// MoneyCeil is MoneyOf, rounded up: for what may be owed.
func MoneyCeil(usd float64) Money {
	m := MoneyOf(usd)
	if m.USD() < usd && m < math.MaxInt64 {
		m++
	}
	return m
}

// USD returns the amount in dollars.
func (m Money) USD() float64 { return float64(m) / float64(USD) }

// String shows dollars with four to nine decimals: as many as it takes.
func (m Money) String() string {
	s := fmt.Sprintf("%.9f", m.USD())
	for s[len(s)-1] == '0' && s[len(s)-5] != '.' {
		s = s[:len(s)-1]
	}
	return s + " USD"
}
