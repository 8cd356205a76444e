// The session of a Go client that oapi-codegen made of the server's document (package
// api, which the test generates beside this file): settings, a start, searches.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"smoke/api"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key := func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-Session-API-Key", os.Getenv("COMPAT_KEY"))
		return nil
	}
	client, err := api.NewClientWithResponses(os.Getenv("COMPAT_HOST"), api.WithRequestEditorFn(key))
	if err != nil {
		panic(err)
	}
	s := &session{ctx, client, ""}
	for _, step := range []struct {
		name string
		do   func() error
	}{{"settings", s.settings}, {"start", s.start}, {"search", s.search}, {"events", s.events}, {"errors", s.errors}, {"delete", s.delete}} {
		say := map[string]string{"step": step.name, "status": "ok"}
		if err := step.do(); err != nil {
			say["status"], say["detail"] = "failed", err.Error()
		}
		tell(say)
	}
	tell(map[string]string{"do": "end"})
}

func tell(v map[string]string) {
	raw, _ := json.Marshal(v)
	fmt.Println(string(raw))
}

type session struct {
	ctx context.Context
	api *api.ClientWithResponses
	id  string
}

func (s *session) settings() error {
	name := "Generated Go"
	stored, err := s.api.V1StoreSettingsWithResponse(s.ctx, api.V1StoreSettingsJSONRequestBody{GitUserName: &name})
	if err != nil {
		return err
	}
	if stored.JSON200 == nil {
		return fmt.Errorf("storing: %s", stored.Body)
	}
	loaded, err := s.api.V1LoadSettingsWithResponse(s.ctx)
	if err != nil {
		return err
	}
	if loaded.JSON200 == nil || loaded.JSON200.GitUserName == nil || *loaded.JSON200.GitUserName != name {
		return fmt.Errorf("loading: %s", loaded.Body)
	}
	return nil
}

func (s *session) start() error {
	var part api.Content
	if err := part.FromTextContent(api.TextContent{Text: "hello there"}); err != nil {
		return err
	}
	title := "of generated Go"
	begun, err := s.api.StartAppConversationWithResponse(s.ctx, nil, api.AppConversationStartRequest{Title: &title,
		InitialMessage: &api.SendMessageRequest{Content: &[]api.Content{part}}})
	if err != nil {
		return err
	}
	if begun.JSON200 == nil {
		return fmt.Errorf("starting: %s", begun.Body)
	}
	id, err := uuid.Parse(begun.JSON200.Id)
	if err != nil {
		return err
	}
	for ; s.ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		tasks, err := s.api.GetStartTasksWithResponse(s.ctx, &api.GetStartTasksParams{Ids: []uuid.UUID{id}})
		if err != nil {
			return err
		}
		if tasks.JSON200 == nil || len(*tasks.JSON200) != 1 {
			return fmt.Errorf("the task: %s", tasks.Body)
		}
		task := (*tasks.JSON200)[0]
		if task.Status == "ERROR" {
			return fmt.Errorf("the start failed: %s", *task.Detail)
		}
		if task.AppConversationId != nil {
			s.id = *task.AppConversationId
			return nil
		}
	}
	return s.ctx.Err()
}

func (s *session) search() error {
	title := "GENERATED GO"
	found, err := s.api.SearchAppConversationsWithResponse(s.ctx, &api.SearchAppConversationsParams{TitleContains: &title})
	if err != nil {
		return err
	}
	if found.JSON200 == nil || len(found.JSON200.Items) != 1 || found.JSON200.Items[0].Id != s.id || found.JSON200.NextPageId != nil {
		return fmt.Errorf("searching: %s", found.Body)
	}
	return nil
}

// events waits for the agent's answer.
func (s *session) events() error {
	kind := api.EventKindParameter("MessageEvent")
	for ; s.ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		page, err := s.api.V1SearchEventsWithResponse(s.ctx, s.id, &api.V1SearchEventsParams{KindEq: &kind})
		if err != nil {
			return err
		}
		if page.JSON200 == nil {
			return fmt.Errorf("searching: %s", page.Body)
		}
		answered := slices.ContainsFunc(page.JSON200.Items, func(e api.EventV1) bool {
			return e.Source == "agent" && e.AdditionalProperties["llm_message"] != nil
		})
		if answered {
			return nil
		}
	}
	return errors.New("no answer came")
}

func (s *session) errors() error {
	answer, err := s.api.GetAppConversationWithResponse(s.ctx, uuid.NewString())
	if err != nil {
		return err
	}
	if answer.JSON404 == nil || answer.JSON200 != nil {
		return fmt.Errorf("an unknown conversation: %d %s", answer.StatusCode(), answer.Body)
	}
	return nil
}

func (s *session) delete() error {
	gone, err := s.api.DeleteAppConversationWithResponse(s.ctx, s.id)
	if err != nil {
		return err
	}
	if gone.JSON200 == nil || !gone.JSON200.Success {
		return fmt.Errorf("deleting: %s", gone.Body)
	}
	return nil
}
