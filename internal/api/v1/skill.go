package v1

import (
	"net/http"
	"slices"

	"parley/internal/api/httpkit"
	"parley/internal/api/settingswire"
	"parley/internal/fault"
	"parley/internal/skill"
	"parley/internal/store"
)

// skillInfo is a skill that every conversation gets (V1 9.5).
type skillInfo struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Triggers    []string `json:"triggers"` // null without
	Description *string  `json:"description"`
	Disabled    bool     `json:"disabled"`
}

// Where skills of a list are from.
const (
	sourceGlobal = "global" // the server's collections
	sourceUser   = "user"
)

// searchSkills lists what users switch on and off: those that are off, too.
func (h *handlers) searchSkills(w http.ResponseWriter, r *httpkit.Request) error {
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	shared, err := h.Engine.Shared(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	s, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	if s, _, err = settingswire.Adopted(s); err != nil {
		return err
	}
	var layers [][]skill.Skill
	for _, b := range shared {
		layers = append(layers, b.Skills)
	}
	all, next := cutPage(skill.Merge(nil, layers...), q)
	items := make([]skillInfo, len(all))
	for i := range all {
		items[i] = skillInfo{Name: all[i].Name, Type: all[i].Type(), Source: sourceOf(&all[i]), Triggers: all[i].Triggers,
			Description: orNull(all[i].Description), Disabled: slices.Contains(s.DisabledSkills, all[i].Name)}
	}
	return writePage(w, items, next)
}

func sourceOf(s *skill.Skill) string {
	if s.Level == skill.LevelUser {
		return sourceUser
	}
	return sourceGlobal
}

// userSkill is a skill file that the user stored.
type userSkill struct {
	Name      string `json:"name"`
	Content   string `json:"content"` // the whole file
	UpdatedAt string `json:"updated_at"`
}

// stored finds one of the user's skills, nil if there is none of that name.
func (h *handlers) stored(r *httpkit.Request) (*store.UserSkill, error) {
	all, err := h.Engine.Skills(r.Context(), r.Principal.UserID)
	at := slices.IndexFunc(all, func(s store.UserSkill) bool { return s.Name == r.PathValue("name") })
	if err != nil || at < 0 {
		return nil, err
	}
	return &all[at], nil
}

func (h *handlers) getSkill(w http.ResponseWriter, r *httpkit.Request) error {
	s, err := h.stored(r)
	switch {
	case err != nil:
		return err
	case s == nil:
		return httpkit.NotFound("Skill")
	}
	return httpkit.JSON(w, http.StatusOK, userSkill{s.Name, s.Content, httpkit.FormatTime(s.UpdatedAt)})
}

// codeBadSkill is the engine's code of a text that is no skill.
const codeBadSkill = "bad_skill"

// putSkill answers a text that is no skill as a wrong member: its error names the line.
func (h *handlers) putSkill(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Content string `json:"content"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	old, err := h.stored(r)
	if err != nil {
		return err
	}
	made, err := h.Engine.PutSkill(r.Context(), r.Principal.UserID, r.PathValue("name"), in.Content)
	switch {
	case fault.CodeOf(err) == codeBadSkill:
		return httpkit.InvalidFields(fault.Field{Loc: []any{"body", "content"}, Type: "value_error", Msg: fault.PublicText(err),
			Ctx: map[string]any{"error": map[string]any{}}})
	case err != nil:
		return err
	}
	status := http.StatusCreated
	if old != nil {
		status = http.StatusOK
	}
	return httpkit.JSON(w, status, viewSkill(&made))
}

func (h *handlers) deleteSkill(w http.ResponseWriter, r *httpkit.Request) error {
	if err := h.Engine.DeleteSkill(r.Context(), r.Principal.UserID, r.PathValue("name")); err != nil {
		return err
	}
	return writeSuccess(w)
}
