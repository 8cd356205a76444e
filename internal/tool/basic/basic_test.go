package basic_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/basic"
)

func TestTools(t *testing.T) {
	for _, c := range []struct {
		tool                                       tool.Tool
		name, args, action, observation, badAction string
	}{
		{
			tool: basic.Finish(), name: "finish",
			args:        `{"message":"done <b>"}`,
			action:      `{"message":"done <b>","kind":"FinishAction"}`,
			observation: `{"content":[{"cache_prompt":false,"type":"text","text":"done <b>"}],"is_error":false,"kind":"FinishObservation"}`,
			badAction:   `{}`,
		},
		{
			tool: basic.Think(), name: "think",
			args:        `{"thought":"hm"}`,
			action:      `{"thought":"hm","kind":"ThinkAction"}`,
			observation: `{"content":[{"cache_prompt":false,"type":"text","text":"The thought is noted."}],"is_error":false,"kind":"ThinkObservation"}`,
			badAction:   `{"message":"x"}`,
		},
	} {
		spec := c.tool.Spec()
		if spec.Name != c.name || !spec.ReadOnly || !spec.NoConfirm || spec.Description == "" {
			t.Errorf("spec %+v", spec)
		}
		action, err := c.tool.Parse(json.RawMessage(c.args))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.action, string(action)); diff != "" {
			t.Error(diff)
		}
		result, err := c.tool.Run(context.Background(), &tool.Env{}, action)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(result.Observation, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.observation), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := c.tool.Parse(json.RawMessage(c.badAction)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s was accepted: %v", c.badAction, err)
		}
		if claims := c.tool.Claims(action); tool.Conflict(claims, claims) {
			t.Error("it changes nothing")
		}
	}
}
