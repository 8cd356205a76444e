package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// maxSkillFile bounds a skill file, in bytes.
const maxSkillFile = 1 << 20

// Skill is a skill that every conversation gets.
type Skill struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Source      string   `json:"source"` // "global" or "user"
	Triggers    []string `json:"triggers"`
	Description string   `json:"description"`
	Disabled    bool     `json:"disabled"`
}

// Skills lists the skills of the server's collections and the user's own.
func (c *Client) Skills(ctx context.Context) ([]Skill, error) {
	return pages[Skill](ctx, c, "/api/v1/skills/search", url.Values{})
}

// ShowSkills prints them.
func ShowSkills(ctx context.Context, c *Client, out io.Writer) error {
	skills, err := c.Skills(ctx)
	if err != nil {
		return err
	}
	if len(skills) == 0 {
		_, err := fmt.Fprintln(out, "No skills. Store one with: parley skills put FILE")
		return err
	}
	rows := [][]string{{"SKILL", "TYPE", "FROM", "TRIGGERS", "DESCRIPTION"}}
	for _, s := range skills {
		from := CleanLine(s.Source)
		if s.Disabled {
			from += ", disabled"
		}
		rows = append(rows, []string{cut(CleanLine(s.Name), 60), CleanLine(s.Type), from,
			cut(CleanLine(strings.Join(s.Triggers, ", ")), 40), cut(CleanLine(s.Description), 80)})
	}
	return table(out, rows)
}

// PutSkill stores a skill file. Its name is that of the file, or of its directory if it
// is a SKILL.md.
func PutSkill(ctx context.Context, c *Client, out io.Writer, file string) error {
	text, err := readSkill(file)
	if err != nil {
		return err
	}
	name, err := skillName(file)
	if err != nil {
		return err
	}
	req, err := c.request(ctx, http.MethodPut, skillPath(name), map[string]string{"content": text})
	if err != nil {
		return err
	}
	var made Skill
	if err := c.do(req, &made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Stored the skill %s (%s). Conversations that start from now on have it.\n", CleanLine(made.Name), CleanLine(made.Type))
	return err
}

func readSkill(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxSkillFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxSkillFile {
		return "", fmt.Errorf("%s is larger than %s bytes, which no skill is", file, thousands(maxSkillFile))
	}
	return string(data), nil
}

func skillName(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	base := filepath.Base(path)
	if strings.EqualFold(base, "SKILL.md") {
		return filepath.Base(filepath.Dir(path)), nil
	}
	return strings.TrimSuffix(base, filepath.Ext(base)), nil
}

// RemoveSkill deletes a skill that the user stored.
func RemoveSkill(ctx context.Context, c *Client, name string) error {
	req, err := c.request(ctx, http.MethodDelete, skillPath(name), nil)
	if err != nil {
		return err
	}
	return c.do(req, nil)
}

func skillPath(name string) string { return "/api/v1/skills/" + url.PathEscape(name) }

// pages reads all pages of a list.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	var all []T
	query.Set("limit", "100")
	for page := ""; ; {
		var found struct {
			Items []T     `json:"items"`
			Next  *string `json:"next_page_id"`
		}
		if page != "" {
			query.Set("page_id", page)
		}
		if err := c.get(ctx, path+"?"+query.Encode(), &found); err != nil {
			return nil, err
		}
		all = append(all, found.Items...)
		if found.Next == nil || *found.Next == page {
			return all, nil
		}
		page = *found.Next
	}
}
