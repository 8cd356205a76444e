package conversation_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/conversation"
)

func TestMoneyOf(t *testing.T) {
	const most = conversation.Money(math.MaxInt64)
	for usd, want := range map[float64][2]conversation.Money{ // nearest, up
		0:              {0, 0},
		-1:             {0, 0},
		math.Inf(-1):   {0, 0},
		math.Inf(1):    {most, most},
		1e300:          {most, most},
		9.3e9:          {most, most},
		9e9:            {9e18, 9e18},
		1:              {1e9, 1e9},
		0.1:            {1e8, 1e8},
		0.3:            {3e8, 3e8},
		1e-9:           {1, 1},
		1.4e-9:         {1, 2},
		1.6e-9:         {2, 2},
		1e-10:          {0, 1},
		5e-324:         {0, 1},
		0.000003 * 7:   {21000, 21000},
		123.4567890123: {123456789012, 123456789013},

		conversation.Money(4194310442467582).USD(): {4194310442467582, 4194310442467582},
	} {
		if got := conversation.MoneyOf(usd); got != want[0] {
			t.Errorf("MoneyOf(%v) = %d, want %d", usd, got, want[0])
		}
		if got := conversation.MoneyCeil(usd); got != want[1] {
			t.Errorf("MoneyCeil(%v) = %d, want %d", usd, got, want[1])
		}
	}
	if conversation.MoneyOf(math.NaN()) != 0 || conversation.MoneyCeil(math.NaN()) != 0 {
		t.Error("no number is an amount")
	}
}

func TestMoneyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := conversation.Money(rapid.Int64Range(0, 1<<52).Draw(t, "amount"))
		if got := conversation.MoneyOf(m.USD()); got != m {
			t.Fatalf("%d came back as %d", m, got)
		}
		if got := conversation.MoneyCeil(m.USD()); got != m {
			t.Fatalf("%d was rounded up to %d", m, got)
		}
	})
}

func TestMoneyCeilCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usd := rapid.Float64Range(0, 1e7).Draw(t, "usd")
		near, up := conversation.MoneyOf(usd), conversation.MoneyCeil(usd)
		if up.USD() < usd || up < near || up > near+1 {
			t.Fatalf("%v USD: nearest %d, up %d", usd, near, up)
		}
	})
}

func TestMoneyString(t *testing.T) {
	for m, want := range map[conversation.Money]string{
		0:                  "0.0000 USD",
		1:                  "0.000000001 USD",
		21000:              "0.000021 USD",
		1e5:                "0.0001 USD",
		1e9:                "1.0000 USD",
		1_230_000_000:      "1.2300 USD",
		1_234_560_000:      "1.23456 USD",
		12_000_000_000_001: "12000.000000001 USD",
		-1_500_000_000:     "-1.5000 USD",
		math.MaxInt64:      "9223372036.8547",
	} {
		if got := m.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%d is shown as %q, want %q", int64(m), got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := conversation.Money(rapid.Int64Range(0, 1<<50).Draw(t, "amount"))
		usd, err := strconv.ParseFloat(strings.TrimSuffix(m.String(), " USD"), 64)
		if err != nil || conversation.MoneyOf(usd) != m {
			t.Fatalf("%d is shown as %q", m, m)
		}
	})
}
