package v1

import (
	"net/http"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/store"
)

// maxUsageDays bounds the days that one request asks for.
const maxUsageDays = 366

// spending is a sum of model calls. Costs are USD.
type spending struct {
	Calls            int64   `json:"calls"`
	Cost             float64 `json:"cost"`
	Uncertain        float64 `json:"uncertain_cost"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	CacheReadTokens  int64   `json:"cache_read_tokens"`
	CacheWriteTokens int64   `json:"cache_write_tokens"`
	ReasoningTokens  int64   `json:"reasoning_tokens"`
}

func renderSpending(s store.Spending) spending {
	return spending{s.Calls, s.Cost.USD(), s.Uncertain.USD(), s.PromptTokens, s.CompletionTokens, s.CacheReadTokens,
		s.CacheWriteTokens, s.ReasoningTokens}
}

// add sums before anything becomes a fraction of a dollar: the sum is exact.
func add(sum *store.Spending, s store.Spending) {
	sum.Calls += s.Calls
	sum.Cost += s.Cost
	sum.Uncertain += s.Uncertain
	sum.PromptTokens += s.PromptTokens
	sum.CompletionTokens += s.CompletionTokens
	sum.CacheReadTokens += s.CacheReadTokens
	sum.CacheWriteTokens += s.CacheWriteTokens
	sum.ReasoningTokens += s.ReasoningTokens
}

func usd(m *conversation.Money) *float64 {
	if m == nil {
		return nil
	}
	v := m.USD()
	return &v
}

type conversationUsage struct {
	Own         spending            `json:"own"`
	ByUse       map[string]spending `json:"by_use"`
	WithSubs    spending            `json:"with_sub_conversations"`
	MaxBudget   *float64            `json:"max_budget_per_task"`
	DailyBudget *float64            `json:"daily_budget"`
}

func (h *handlers) conversationUsage(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	u, err := h.Engine.ConversationUsage(r.Context(), r.Principal.UserID, v.ID)
	if err != nil {
		return err
	}
	out := conversationUsage{ByUse: map[string]spending{}, WithSubs: renderSpending(u.Tree),
		MaxBudget: v.Options.MaxBudget, DailyBudget: usd(h.DailyBudget)}
	var own store.Spending
	for use, s := range u.ByUse {
		out.ByUse[use] = renderSpending(s)
		add(&own, s)
	}
	out.Own = renderSpending(own)
	return httpkit.JSON(w, http.StatusOK, out)
}

type usageRow struct {
	Day   string `json:"day"`
	Use   string `json:"use"`
	Model string `json:"model"`
	spending
}

type usageReport struct {
	Items       []usageRow `json:"items"`
	Total       spending   `json:"total"`
	DailyBudget *float64   `json:"daily_budget"`
}

func (h *handlers) usage(w http.ResponseWriter, r *httpkit.Request) error {
	from, to, err := usageDays(r)
	if err != nil {
		return err
	}
	rows, err := h.Engine.Usage(r.Context(), r.Principal.UserID, from, to)
	if err != nil {
		return err
	}
	out := usageReport{Items: make([]usageRow, len(rows)), DailyBudget: usd(h.DailyBudget)}
	var total store.Spending
	for i, row := range rows {
		out.Items[i] = usageRow{row.Day, row.Use, row.Model, renderSpending(row.Spending)}
		add(&total, row.Spending)
	}
	out.Total = renderSpending(total)
	return httpkit.JSON(w, http.StatusOK, out)
}

// usageDays reads the range of days; without one it is today (UTC).
func usageDays(r *httpkit.Request) (from, to string, err error) {
	var q struct {
		From *string `json:"from"`
		To   *string `json:"to"`
	}
	if err := r.Params(&q); err != nil {
		return "", "", err
	}
	last, err := day(q.To, time.Now().UTC(), "to")
	if err != nil {
		return "", "", err
	}
	first, err := day(q.From, last, "from")
	switch {
	case err != nil:
	case first.After(last):
		err = httpkit.BadField("from must not be after to", orEmpty(q.From), "query", "from")
	case last.Sub(first) >= maxUsageDays*24*time.Hour:
		err = httpkit.BadField("at most 366 days can be asked for at once", orEmpty(q.From), "query", "from")
	}
	return first.Format(time.DateOnly), last.Format(time.DateOnly), err
}

func day(text *string, otherwise time.Time, name string) (time.Time, error) {
	if text == nil {
		return otherwise.Truncate(24 * time.Hour), nil
	}
	t, err := time.Parse(time.DateOnly, *text)
	if err != nil {
		return t, httpkit.BadField("a day has the form 2006-01-31", *text, "query", name)
	}
	return t, nil
}
