package sqlstore

import (
	"strconv"
	"strings"
	"time"
)

// clause collects conditions and their arguments. Placeholders are numbered in
// the order in which they are written, as both engines want it.
type clause struct {
	conditions []string
	args       []any
}

// arg adds an argument and returns its placeholder.
func (c *clause) arg(v any) string {
	c.args = append(c.args, v)
	return "$" + strconv.Itoa(len(c.args))
}

// and adds a condition that ends with its placeholder: "owner =".
func (c *clause) and(condition string, v any) {
	c.conditions = append(c.conditions, condition+" "+c.arg(v))
}

// equal adds a condition unless v is empty.
func (c *clause) equal(col, v string) {
	if v != "" {
		c.and(col+" =", v)
	}
}

// owned adds the condition that the owner is v, unless v is empty, in a form that no
// index is used for: beside a list of ids SQLite would take the owner's index and
// read all of the owner's rows.
func (c *clause) owned(v string) {
	if v != "" {
		c.and("owner || '' =", v)
	}
}

// contains adds a search for a lower-case copy of v, unless v is empty.
func (c *clause) contains(col, v string) {
	if v != "" {
		c.conditions = append(c.conditions, contains(col, c.arg(strings.ToLower(v))))
	}
}

// between adds from <= col < to; zero times do not limit.
func (c *clause) between(col string, from, to time.Time) {
	if !from.IsZero() {
		c.and(col+" >=", micros(from))
	}
	if !to.IsZero() {
		c.and(col+" <", micros(to))
	}
}

// after adds the condition that (key, id) comes behind the cursor.
func (c *clause) after(o keyset, at cursor) {
	op := " > ("
	if o.desc {
		op = " < ("
	}
	c.conditions = append(c.conditions, "("+o.column+", id)"+op+c.arg(at.key(o))+", "+c.arg(at.ID)+")")
}

// where returns " WHERE ..." or "".
func (c *clause) where() string {
	if len(c.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.conditions, " AND ")
}

// in adds a list of values as one condition.
func (c *clause) in(col string, values []string) {
	marks := make([]string, len(values))
	for i, v := range values {
		marks[i] = c.arg(v)
	}
	c.conditions = append(c.conditions, col+" IN ("+strings.Join(marks, ", ")+")")
}
