package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parley/internal/llm"
)

// The table has a line per model with six fields between tabs; lines that begin
// with # are comments. What is unknown is empty.
//
//	model  context window  output limit  facts  prices  deprecated
//
// Facts are letters, upper case for yes and lower case for no: V takes images, T
// has native tools, R thinks, C caches prompts, S is reached over the Responses
// API only. Prices are USD per million tokens, input/output/cache read/cache
// write/cache write for an hour; those of longer prompts follow after >tokens:.

// fields is how many fields a line has.
const fields = 6

// Parse reads a table. Errors name the line.
func Parse(text string) (*Catalog, error) {
	rows := make([]row, 0, strings.Count(text, "\n")+1)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		e, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("model catalogue, line %d: %w", number, err)
		}
		rows = append(rows, row{key: strings.ToLower(e.Model), entry: e})
	}
	return build(rows), nil
}

func parseLine(line string) (Entry, error) {
	var f [fields]string
	if strings.Count(line, "\t") != fields-1 {
		return Entry{}, fmt.Errorf("it has not %d fields", fields)
	}
	for i := range f {
		f[i], line, _ = strings.Cut(line, "\t")
	}
	e := Entry{Model: f[0], Deprecated: f[5]}
	if err := checkID(e.Model); err != nil {
		return e, err
	}
	var err error
	if e.ContextWindow, err = parseTokens(f[1]); err != nil {
		return e, err
	}
	if e.MaxOutput, err = parseTokens(f[2]); err != nil {
		return e, err
	}
	if err = e.parseFacts(f[3]); err != nil {
		return e, err
	}
	if e.Price, e.HourPrice, err = parsePrices(f[4]); err != nil {
		return e, err
	}
	return e, checkDay(e.Deprecated)
}

// maxTokens bounds windows, outputs and steps of prices.
const maxTokens = 1 << 40

func parseTokens(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > maxTokens {
		return 0, fmt.Errorf("%.40q is no number of tokens", s)
	}
	return n, nil
}

// checkID holds what makes an id usable in a table: something, on one line.
func checkID(id string) error {
	if id == "" || len(id) > 256 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%.60q is no model id", id)
	}
	return nil
}

func checkDay(day string) error {
	if day == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return fmt.Errorf("%.40q is no day, such as 2027-01-31", day)
	}
	return nil
}

func (e *Entry) parseFacts(s string) error {
	for i := range len(s) {
		fact := Yes
		letter := s[i]
		if letter >= 'a' {
			fact, letter = No, letter-'a'+'A'
		}
		switch letter {
		case 'V':
			e.Vision = fact
		case 'T':
			e.Tools = fact
		case 'R':
			e.Reasoning = fact
		case 'C':
			e.CachePrompt = fact
		case 'S':
			e.Responses = fact == Yes
		default:
			return fmt.Errorf("%q is no fact", s[i])
		}
	}
	return nil
}

// parsePrices reads the prices, and those with a cache of an hour where they differ.
func parsePrices(s string) (price, hour *llm.Price, err error) {
	if s == "" {
		return nil, nil, nil
	}
	var steps []rates
	for part := range strings.SplitSeq(s, ">") {
		r, err := parseRates(part, len(steps) > 0)
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, r)
	}
	if err := ascending(steps); err != nil {
		return nil, nil, err
	}
	price, hour = prices(steps)
	return price, hour, nil
}

// parseRates reads one step; a later one begins with the tokens it holds from.
func parseRates(s string, later bool) (rates, error) {
	var r rates
	if later {
		from, rest, _ := strings.Cut(s, ":")
		var err error
		if r.from, err = parseTokens(from); err != nil || from == "" {
			return r, fmt.Errorf("%.40q is no step of prices", s)
		}
		s = rest
	}
	values := [5]float64{unset, unset, unset, unset, unset}
	n := 0
	for part := range strings.SplitSeq(s, "/") {
		if n == len(values) {
			return r, fmt.Errorf("%.60q has too many prices", s)
		}
		if part != "" {
			v, err := strconv.ParseFloat(part, 64)
			if err != nil || !plausible(v) {
				return r, fmt.Errorf("%.40q is no price", part)
			}
			values[n] = v
		}
		n++
	}
	r.input, r.output, r.read, r.write, r.hour = values[0], values[1], values[2], values[3], values[4]
	if r.input == unset || r.output == unset {
		return r, fmt.Errorf("%.60q lacks the price of input or output", s)
	}
	return r, nil
}

// plausible bounds a price in USD per million tokens: a typing error must not
// look like a bargain or ruin.
func plausible(v float64) bool { return v >= 0 && v <= 100_000 && !math.IsNaN(v) }

// Format writes entries as a table that Parse reads, in their order. Prices are
// rounded to ten digits.
func Format(entries []Entry) []byte {
	var out []byte
	for _, e := range entries {
		out = append(out, e.Model...)
		out = append(out, '\t')
		out = appendTokens(out, e.ContextWindow)
		out = append(out, '\t')
		out = appendTokens(out, e.MaxOutput)
		out = append(out, '\t')
		out = append(out, e.facts()...)
		out = append(out, '\t')
		out = appendPrices(out, e)
		out = append(out, '\t')
		out = append(out, e.Deprecated...)
		out = append(out, '\n')
	}
	return out
}

func appendTokens(out []byte, n int64) []byte {
	if n == 0 {
		return out
	}
	return strconv.AppendInt(out, n, 10)
}

func (e Entry) facts() string {
	var b strings.Builder
	for _, f := range []struct {
		letter byte
		fact   Fact
	}{{'V', e.Vision}, {'T', e.Tools}, {'R', e.Reasoning}, {'C', e.CachePrompt}} {
		switch f.fact {
		case Yes:
			b.WriteByte(f.letter)
		case No:
			b.WriteByte(f.letter - 'A' + 'a')
		case Unknown:
		}
	}
	if e.Responses {
		b.WriteByte('S')
	}
	return b.String()
}

func appendPrices(out []byte, e Entry) []byte {
	for i, r := range ratesOf(e.Price, e.HourPrice) {
		if i > 0 {
			out = append(out, '>')
			out = strconv.AppendInt(out, r.from, 10)
			out = append(out, ':')
		}
		values := []float64{r.input, r.output, r.read, r.write, r.hour}
		for len(values) > 2 && values[len(values)-1] == unset {
			values = values[:len(values)-1]
		}
		for j, v := range values {
			if j > 0 {
				out = append(out, '/')
			}
			if v != unset {
				out = strconv.AppendFloat(out, v, 'g', 10, 64)
			}
		}
	}
	return out
}
