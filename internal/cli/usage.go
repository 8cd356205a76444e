package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"parley/internal/conversation"
)

// Spending is what model calls cost, in USD and tokens.
type Spending struct {
	Day              string  `json:"day"`
	Use              string  `json:"use"`
	Model            string  `json:"model"`
	Calls            int64   `json:"calls"`
	Cost             float64 `json:"cost"`
	Uncertain        float64 `json:"uncertain_cost"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
}

// UsageReport is the spending of some days.
type UsageReport struct {
	Items       []Spending `json:"items"`
	Total       Spending   `json:"total"`
	DailyBudget *float64   `json:"daily_budget"` // USD
}

// Usage returns what the user's model calls cost from one day to another, UTC,
// "2006-01-31"; "" leaves the choice to the server: today.
func (c *Client) Usage(ctx context.Context, from, to string) (UsageReport, error) {
	query := url.Values{}
	for name, day := range map[string]string{"from": from, "to": to} {
		if day != "" {
			query.Set(name, day)
		}
	}
	var report UsageReport
	return report, c.get(ctx, "/api/v1/usage?"+query.Encode(), &report)
}

// ShowUsage prints the spending as a table.
func ShowUsage(ctx context.Context, c *Client, out io.Writer, from, to string) error {
	report, err := c.Usage(ctx, from, to)
	if err != nil {
		return err
	}
	rows := [][]string{{"DAY", "USE", "MODEL", "CALLS", "IN", "CACHED", "OUT", "USD", "UNCERTAIN"}}
	for _, s := range report.Items {
		rows = append(rows, s.row(CleanLine(s.Day), CleanLine(s.Use), CleanLine(s.Model)))
	}
	rows = append(rows, report.Total.row("total", "", ""))
	if err := table(out, rows, 3, 4, 5, 6, 7, 8); err != nil {
		return err
	}
	return report.notes(out)
}

func (s *Spending) row(day, use, model string) []string {
	count := func(n int64) string { return thousands(max(n, 0)) }
	return []string{day, use, model, count(s.Calls), count(s.PromptTokens), count(s.CacheReadTokens), count(s.CompletionTokens),
		amount(s.Cost), amount(s.Uncertain)}
}

func (r *UsageReport) notes(out io.Writer) error {
	if r.DailyBudget != nil {
		if _, err := fmt.Fprintf(out, "\nThe ceiling of one day is %s USD; uncertain costs count.\n", amount(*r.DailyBudget)); err != nil {
			return err
		}
	}
	if r.Total.Uncertain == 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, "\nUncertain is what calls that broke off may have cost on top.")
	return err
}

// amount writes USD with four to nine decimals.
func amount(usd float64) string {
	return strings.TrimSuffix(conversation.MoneyOf(usd).String(), " USD")
}
