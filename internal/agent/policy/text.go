package policy

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// textHandler returns what follows a command that makes text of text.
func textHandler(name string) func(*command) data {
	switch name {
	case "echo":
		return (*command).echo
	case "printf":
		return (*command).printf
	case "cat", "tac", "nl", "head", "tail", "less", "more", "bat", "batcat", "strings", "sort", "uniq", "grep", "egrep", "fgrep",
		"rg", "cut", "paste", "fold", "column", "jq", "yq", "gzip", "zcat", "gunzip", "xz", "bzip2", "zstd", "lz4", "dos2unix", "iconv", "expand",
		"od", "hexdump", "pv", "shuf", "join", "fmt", "gpg", "unzip", "split":
		return (*command).filter
	case "base64", "base32", "xxd", "openssl", "basenc", "uudecode":
		return (*command).decode
	case "tr":
		return (*command).translate
	case "rev":
		return func(c *command) data { return reversed(c.filter()) }
	case "sed", "gsed", "awk", "gawk", "mawk", "nawk":
		return (*command).script
	case "tee", "sponge":
		return (*command).tee
	case "yes":
		return func(c *command) data { return unknown(origins(c.args)) }
	case "seq", "date", "uname", "hostname", "whoami", "id", "nproc", "wc", "ls", "dirname", "basename", "realpath", "readlink", "stat", "md5sum",
		"sha1sum", "sha256sum", "shasum", "cksum", "du", "df":
		return func(*command) data { return unknown(0) }
	}
	return nil
}

func (c *command) echo() data {
	args, escapes := c.args, false
	for len(args) > 0 && len(args[0].text) > 1 && args[0].text[0] == '-' && strings.Trim(args[0].text[1:], "neE") == "" {
		escapes = escapes || strings.Contains(args[0].text, "e")
		args = args[1:]
	}
	out := joined(args)
	if escapes {
		out.text = unescapeC(out.text)
	}
	return out.then(known("\n"))
}

// printf puts its arguments into its format.
func (c *command) printf() data {
	args := c.args
	if len(args) > 1 && args[0].text == "-v" {
		args = args[2:]
		if len(args) > 0 {
			c.assign(c.args[1].text, c.format1(args[0], args[1:]))
		}
		return data{}
	}
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return data{}
	}
	return c.format1(args[0], args[1:])
}

// format1 applies a format as often as there are arguments for it.
func (c *command) format1(format data, args []data) data {
	var out data
	for range maxValues {
		text, rest := formatted(format.text, args)
		out = out.then(text.with(format.from))
		if len(rest) == 0 || len(rest) == len(args) {
			return out
		}
		args = rest
	}
	return out.then(unknown(origins(args)))
}

func formatted(format string, args []data) (data, []data) {
	var out data
	for format != "" {
		plain, after, found := strings.Cut(format, "%")
		out = out.then(known(unescapeC(plain)))
		if !found {
			break
		}
		after = strings.TrimLeft(after, "0123456789.-+# *'")
		if after == "" {
			break
		}
		verb := after[0]
		format = after[1:]
		switch {
		case verb == '%':
			out = out.then(known("%"))
		case len(args) == 0:
		default:
			v := args[0]
			args = args[1:]
			if verb == 'b' {
				v.text = unescapeC(v.text)
			}
			out = out.then(v)
		}
	}
	return out, args
}

// filter is a command that writes a part or another form of the files that it
// names, or of its input. Only what cat and its like write is followed to the letter.
func (c *command) filter() data {
	var out data
	ops := c.operands("-n -c -A -B -C -e -f -m -d -k -t -w -S -o -T --output")
	if slices.Contains([]string{"grep", "egrep", "fgrep", "rg", "jq", "yq"}, c.name) && len(ops) > 0 {
		ops = ops[1:]
	}
	for _, f := range ops {
		if f.text != "-" {
			out = out.then(c.read(f.text))
		}
	}
	if len(ops) == 0 || slices.ContainsFunc(ops, func(d data) bool { return d.text == "-" }) {
		out = out.then(c.in)
	}
	if slices.Contains([]string{"cat", "bat", "less", "more", "pv", "rev"}, c.name) {
		return out
	}
	return out.lost()
}

func (c *command) tee() data {
	o := parseOptions(c.args, "")
	for _, f := range o.operands {
		c.write(f.text, c.in, o.has("-a", "--append"))
	}
	return c.in
}

// decode is base64 -d and what else makes unreadable text readable.
func (c *command) decode() data {
	o := parseOptions(c.args, "-w -i -in -out -o -s -l -c -g --wrap")
	in := c.in
	ops := o.operands
	if c.name == "openssl" {
		for i, a := range c.args {
			if a.text == "-in" && i+1 < len(c.args) {
				in = c.read(c.args[i+1].text)
			}
		}
		ops = nil
	}
	for _, f := range ops {
		if f.text != "-" {
			in = c.read(f.text)
		}
	}
	if !c.decodes(o) {
		return in.lost()
	}
	if plain, ok := decoded(c.name, in); ok {
		return data{plain, in.from | fromCode}
	}
	return unknown(in.from | fromCode)
}

func (c *command) decodes(o options) bool {
	if c.name == "openssl" {
		return indexText(c.args, "-d") >= 0
	}
	return o.has("-d", "-D", "--decode", "-r") || c.name == "uudecode"
}

// decoded is the text of d, if all of it is known and it is text.
func decoded(name string, d data) (string, bool) {
	if d.holed() {
		return "", false
	}
	packed := strings.Join(strings.Fields(d.text), "")
	var plain []byte
	var err error
	switch name {
	case "base32":
		plain, err = base32.StdEncoding.DecodeString(packed)
	case "xxd":
		plain, err = hex.DecodeString(packed)
	default:
		plain, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(packed, "="))
	}
	return string(plain), err == nil && utf8.Valid(plain)
}

func reversed(d data) data {
	if d.holed() {
		return unknown(d.from | fromCode)
	}
	var lines []string
	for line := range strings.Lines(d.text) {
		text, end := strings.CutSuffix(line, "\n")
		r := []rune(text)
		slices.Reverse(r)
		line = string(r)
		if end {
			line += "\n"
		}
		lines = append(lines, line)
	}
	return data{strings.Join(lines, ""), d.from | fromCode}
}

// translate is tr.
func (c *command) translate() data {
	o := parseOptions(c.args, "")
	if len(o.operands) == 0 || c.in.holed() {
		return c.in.lost()
	}
	from, ok := letters(o.operands[0].text)
	if !ok || o.has("-c", "-C", "-s") {
		return unknown(c.in.from | fromCode)
	}
	if o.has("-d", "--delete") {
		return data{strings.Map(func(r rune) rune {
			if slices.Contains(from, r) {
				return -1
			}
			return r
		}, c.in.text), c.in.from}
	}
	if len(o.operands) < 2 {
		return c.in.lost()
	}
	to, ok := letters(o.operands[1].text)
	if !ok || len(to) == 0 {
		return unknown(c.in.from | fromCode)
	}
	return data{strings.Map(func(r rune) rune {
		if i := slices.Index(from, r); i >= 0 {
			return to[min(i, len(to)-1)]
		}
		return r
	}, c.in.text), c.in.from | fromCode}
}

// letters are those that a set of tr names.
func letters(set string) ([]rune, bool) {
	set = unescapeC(set)
	set = strings.NewReplacer("[:upper:]", "A-Z", "[:lower:]", "a-z", "[:space:]", " \t\n", "[:digit:]", "0-9").Replace(set)
	if strings.Contains(set, "[:") || len(set) > 300 {
		return nil, false
	}
	r := []rune(set)
	var out []rune
	for i := 0; i < len(r); i++ {
		if i+2 < len(r) && r[i+1] == '-' && r[i] <= r[i+2] && r[i+2]-r[i] < 300 {
			for x := r[i]; x <= r[i+2]; x++ {
				out = append(out, x)
			}
			i += 2
			continue
		}
		out = append(out, r[i])
	}
	return out, true
}

// script is sed and awk: their programs can start commands, and sed writes files.
func (c *command) script() data {
	o := parseOptions(c.args, "-e -f -F -v --expression --file --assign")
	programs := o.values("-e", "--expression")
	files := o.operands
	if len(programs) == 0 && !o.has("-f", "--file") && len(files) > 0 {
		programs, files = files[:1], files[1:]
	}
	for _, p := range programs {
		if strings.HasSuffix(c.name, "awk") {
			c.awk(p)
		} else if text, ok := sedCommand(p.text); ok {
			c.child(data{text, p.from}, nil, data{})
		}
	}
	out := c.in
	for _, f := range files {
		if o.has("-i", "--in-place") {
			judgePath(c.scan, resolve(c.cwd(), f.text))
		} else {
			out = out.then(c.read(f.text))
		}
	}
	return out.lost()
}

// awk judges the commands that an awk program starts: its texts in quotes.
func (c *command) awk(p data) {
	if strings.Contains(p.text, "system") || strings.Contains(p.text, "|") {
		for _, q := range quotedInCode.FindAllString(p.text, maxStrings) {
			text := unescapeC(strings.Trim(q, `"`))
			if strings.ContainsAny(text, " \t") || isShell(text) {
				c.aside(func() { c.child(data{text, fromFile}, nil, data{}) })
			}
		}
	}
	if isShellPipe(p.text) && c.in.has(fromNet) {
		c.high(fetchToExec)
	}
}

func isShellPipe(program string) bool {
	for _, q := range quotedInCode.FindAllString(program, maxStrings) {
		if fields := strings.Fields(strings.Trim(q, `"`)); len(fields) > 0 && isShell(base(fields[0])) && strings.Contains(program, "|") {
			return true
		}
	}
	return strings.Contains(program, "system($0)")
}

// sedCommand is the command of GNU sed's e.
func sedCommand(program string) (string, bool) {
	rest := strings.TrimLeft(program, "0123456789,$ ")
	if text, ok := strings.CutPrefix(rest, "e "); ok {
		return text, true
	}
	return "", false
}
