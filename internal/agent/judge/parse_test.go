package judge_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/agent/judge"
	"parley/internal/conversation"
)

func TestParse(t *testing.T) {
	half := conversation.GoalVerdict{Score: 0.5, Missing: "tests"}
	done := conversation.GoalVerdict{Score: 1, Complete: true}
	cases := map[string]struct {
		answer string
		want   conversation.GoalVerdict
	}{
		"plain":                 {`{"score":0.5,"complete":false,"missing":"tests"}`, half},
		"done":                  {`{"score":1,"complete":true,"missing":""}`, done},
		"fence":                 {"```json\n{\n  \"score\": 0.5,\n  \"complete\": false,\n  \"missing\": \"tests\"\n}\n```\n", half},
		"prose around":          {"Let's see {what} we have:\n{\"score\":0.5,\"complete\":false,\"missing\":\"tests\"}\nThat's {all}.", half},
		"the last one counts":   {`First {"score":1,"complete":true}, but then {"score":0.5,"complete":false,"missing":"tests"}`, half},
		"a later scrap":         {`{"score":0.5,"complete":false,"missing":"tests"} and {"note":1} {"score":"high"} {"score`, half},
		"wrapped":               {`{"verdict":{"score":0.5,"complete":false,"missing":"tests"}}`, half},
		"with details inside":   {`{"score":0.5,"complete":false,"missing":"tests","details":[{"score":1,"complete":true}]}`, half},
		"braces in text":        {`{"missing":"add } and { \"score\": 1","score":0.5,"complete":false}`, conversation.GoalVerdict{Score: 0.5, Missing: `add } and { "score": 1`}},
		"other letters":         {`{"Score":0.5,"COMPLETE":false," Missing ":"tests"}`, half},
		"the right name wins":   {`{"Score":1,"score":0.5,"SCORE":1,"complete":false,"missing":"tests"}`, half},
		"percentage":            {`{"score":50,"complete":false,"missing":"tests"}`, half},
		"percentage as text":    {`{"score":"50%","complete":"no","missing":"tests"}`, half},
		"percentage with space": {`{"score":" 50 % ","complete":"False","missing":"tests"}`, half},
		"fraction as text":      {`{"score":"5/10","complete":0,"missing":"tests"}`, half},
		"out of":                {`{"score":"5 out of 10","complete":0,"missing":"tests"}`, half},
		"number as text":        {`{"score":"0.5","complete":"partial","missing":"tests"}`, half},
		"whole as text":         {`{"score":"100","complete":"Yes"}`, done},
		"just above one":        {`{"score":1.5,"complete":false}`, conversation.GoalVerdict{Score: 0.015}},
		"a list":                {`{"score":0.5,"complete":false,"missing":["tests","", "docs"]}`, conversation.GoalVerdict{Score: 0.5, Missing: "- tests\n- docs"}},
		"an object":             {`{"score":0.5,"complete":false,"missing":{"a":"<b>"}}`, conversation.GoalVerdict{Score: 0.5, Missing: `{"a":"<b>"}`}},
		"a number":              {`{"score":0.5,"complete":false,"missing":3}`, conversation.GoalVerdict{Score: 0.5, Missing: "3"}},
		"null":                  {`{"score":1,"complete":true,"missing":null}`, done},
		"raw line end":          {"{\"score\":0.5,\"complete\":false,\"missing\":\"a\nb\"}", conversation.GoalVerdict{Score: 0.5, Missing: "a\nb"}},
		"control characters":    {`{"score":0.5,"complete":false,"missing":"a\u001b[2J\u0000b\u009b"}`, conversation.GoalVerdict{Score: 0.5, Missing: "a[2Jb"}},
		"no score, done":        {`{"complete":true}`, done},
		"no score, not done":    {`{"complete":false,"missing":"tests"}`, conversation.GoalVerdict{Missing: "tests"}},
		"no word, all reached":  {`{"score":1}`, done},
		"no word, nearly":       {`{"score":0.99}`, conversation.GoalVerdict{Score: 0.99}},
		"null is no word":       {`{"score":0.99,"complete":null}`, conversation.GoalVerdict{Score: 0.99}},
		"contradiction":         {`{"score":0.1,"complete":true}`, conversation.GoalVerdict{Score: 0.1}},
		"many braces before":    {strings.Repeat("{", 5000) + `{"score":0.5,"complete":false,"missing":"tests"}`, half},
		"long before":           {strings.Repeat("thinking ", 50_000) + `{"score":0.5,"complete":false,"missing":"tests"}`, half},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := judge.Parse(c.answer)
			if err != nil || got != c.want {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":           "",
		"prose":             "The work is complete, score 1.",
		"cut":               `{"score":0.5,"complete":false,"missing":"te`,
		"another object":    `{"rating":5}`,
		"a list":            `[0.5,false]`,
		"negative":          `{"score":-0.1,"complete":false}`,
		"too much":          `{"score":101,"complete":true}`,
		"too much, text":    `{"score":"120%","complete":true}`,
		"fraction of none":  `{"score":"1/0","complete":true}`,
		"more than all":     `{"score":"11/10","complete":true}`,
		"not a number":      `{"score":"NaN","complete":true}`,
		"infinite":          `{"score":"inf","complete":true}`,
		"huge":              `{"score":1e999,"complete":true}`,
		"a word":            `{"score":"high","complete":true}`,
		"truth as score":    `{"score":true,"complete":true}`,
		"score in a list":   `{"score":[1],"complete":true}`,
		"maybe":             `{"score":1,"complete":"maybe"}`,
		"two":               `{"score":1,"complete":2}`,
		"complete as list":  `{"score":1,"complete":[true]}`,
		"unclosed for ever": strings.Repeat(`{"a":`, 100_000),
	} {
		if got, err := judge.Parse(answer); !errors.Is(err, judge.ErrUnreadable) || got != (conversation.GoalVerdict{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestMissingIsBounded(t *testing.T) {
	got, err := judge.Parse(`{"score":0.5,"complete":false,"missing":"` + strings.Repeat("ä", 20_000) + `"}`)
	if err != nil || len(got.Missing) > 4000 || !utf8.ValidString(got.Missing) {
		t.Errorf("%d bytes, %v", len(got.Missing), err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"score":0.5,"complete":false,"missing":"tests"}`, "```json\n{\"score\": \"80%\", \"complete\": \"yes\"}\n```",
		`{"score":"8/10","missing":["a",{"b":null}]}`, `{"verdict":{"complete":true}} {`, `{"score":1e999}`, `{"score":-0}`,
		"{\"score\":1,\"missing\":\"\x80\n\"}", `{"a":"\\\"{","score":"1 out of 2"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := judge.Parse(answer)
		again, err2 := judge.Parse(answer)
		if got != again || (err == nil) != (err2 == nil) {
			t.Fatalf("twice: %+v, %+v", got, again)
		}
		if err != nil {
			if !errors.Is(err, judge.ErrUnreadable) || got != (conversation.GoalVerdict{}) {
				t.Fatalf("%+v with %v", got, err)
			}
			return
		}
		if math.IsNaN(got.Score) || got.Score < 0 || got.Score > 1 || math.Signbit(got.Score) || got.Complete && got.Score < 0.5 {
			t.Fatalf("%+v", got)
		}
		if !utf8.ValidString(got.Missing) || len(got.Missing) > 4000 || strings.ContainsRune(got.Missing, 0) {
			t.Fatalf("missing %q", got.Missing)
		}
		if text := judge.FollowUp("x", got, 1, 2); !utf8.ValidString(text) || len(text) > 20_000 {
			t.Fatalf("follow-up of %d bytes", len(text))
		}
	})
}
