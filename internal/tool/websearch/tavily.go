package websearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/internal/content"
)

const (
	defaultBaseURL = "https://api.tavily.com"
	// timeout is for the whole exchange; a basic search takes a second or two.
	timeout = 30 * time.Second
	// maxBody is how many bytes of an answer are read; 20 results have some 100 KB.
	maxBody = 2 << 20
	// maxDetail is how many characters of a refusal a model reads.
	maxDetail = 300
)

// Statuses that are Tavily's own.
const (
	statusPlanLimit  = 432
	statusSpentLimit = 433
)

// problem is a search that failed, with a text for the model and the user.
type problem struct{ text string }

func (p *problem) Error() string { return p.text }

func failed(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...)} }

// tavily speaks Tavily's protocol.
type tavily struct {
	url    string
	client *http.Client
}

func newTavily(cfg Config) *tavily {
	client := http.Client{}
	if cfg.Client != nil {
		client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &tavily{url: strings.TrimSuffix(cmp.Or(cfg.BaseURL, defaultBaseURL), "/") + "/search", client: &client}
}

// request is the body of POST /search.
type request struct {
	Query             string   `json:"query"`
	SearchDepth       string   `json:"search_depth"` // "advanced" costs twice as much
	Topic             string   `json:"topic"`
	MaxResults        int      `json:"max_results"`
	TimeRange         string   `json:"time_range,omitempty"`
	IncludeDomains    []string `json:"include_domains,omitempty"`
	ExcludeDomains    []string `json:"exclude_domains,omitempty"`
	IncludeAnswer     bool     `json:"include_answer"`
	IncludeImages     bool     `json:"include_images"`
	IncludeRawContent bool     `json:"include_raw_content"`
}

// result is one page that was found.
type result struct {
	Title     string `json:"title"`
	URL       string `json:"url"`
	Content   string `json:"content"`
	Published string `json:"published_date"`
}

// search asks once. The error is a *problem, or the server's own.
func (t *tavily) search(ctx context.Context, key string, a Action) ([]result, error) {
	body, err := content.Marshal(request{
		Query: a.Query, SearchDepth: "basic", Topic: a.Topic, MaxResults: a.MaxResults, TimeRange: a.TimeRange,
		IncludeDomains: a.IncludeDomains, ExcludeDomains: a.ExcludeDomains,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the search: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the address of the web search: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp, raw)
	}
	return decode(raw)
}

// unreachable leaves out the error's text, which is about the server's network.
func unreachable(err error) error {
	var n net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout() {
		return failed("The web search did not answer within %s. Try again later.", timeout)
	}
	return failed("The web search cannot be reached from the server. Go on without it, and tell the user if the task needs it.")
}

// refusal puts a status into words.
func refusal(resp *http.Response, body []byte) error {
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized:
		return failed("Tavily refused the key of the web search. The user must correct it in the settings (search_api_key); searching again does not help.")
	case status == statusPlanLimit || status == statusSpentLimit || status == http.StatusPaymentRequired || status == http.StatusForbidden:
		return failed("Tavily refused the search: the plan of the key does not allow it or its quota is used up. "+
			"The user must look at it on Tavily's site; searching again does not help.%s", detail(body))
	case status == http.StatusTooManyRequests:
		return failed("There were too many searches in a short time. Try again %s.", later(resp.Header))
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return failed("Tavily cannot do this search. Change it.%s", detail(body))
	case status >= 500:
		return failed("Tavily has a problem of its own (status %d). Try again later.", status)
	}
	return failed("Tavily answered with the unexpected status %d.", resp.StatusCode)
}

// later says when to try again.
func later(h http.Header) string {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds <= 0 || seconds > 3600 {
		return "in a minute"
	}
	return fmt.Sprintf("in %d seconds", seconds)
}

// detail is what a refusal says, "" if it says nothing that can be read: an object
// with an error in it, a text, or a list of wrong members.
func detail(body []byte) string {
	var refusal struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &refusal) != nil {
		return ""
	}
	var object struct {
		Error string `json:"error"`
	}
	var text string
	var list []struct {
		Msg string `json:"msg"`
	}
	switch {
	case json.Unmarshal(refusal.Detail, &object) == nil:
		text = object.Error
	case json.Unmarshal(refusal.Detail, &text) == nil:
	case json.Unmarshal(refusal.Detail, &list) == nil && len(list) > 0:
		text = list[0].Msg
	}
	if text = oneLine(text, maxDetail); text == "" {
		return ""
	}
	return " It says: " + text
}

// decode reads an answer. A result without an address is left out.
func decode(body []byte) ([]result, error) {
	if len(body) > maxBody {
		return nil, failed("The answer of the web search is larger than %d MiB. Ask for fewer results.", maxBody>>20)
	}
	var answer struct {
		Results *[]result `json:"results"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Results == nil {
		return nil, failed("The answer of the web search cannot be read: it is no list of results.")
	}
	var found []result
	for _, r := range *answer.Results {
		if r.URL = oneLine(r.URL, maxURL); strings.HasPrefix(r.URL, "https://") || strings.HasPrefix(r.URL, "http://") {
			found = append(found, r)
		}
	}
	return found[:min(len(found), maxResults)], nil
}
