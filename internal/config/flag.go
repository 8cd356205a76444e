package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// fileFlag names the configuration file.
const fileFlag = "config"

// flagText keeps what was given to a flag. It is checked by Load, together with
// all other sources, so that a wrong value reads the same wherever it is from
// and a wrong secret is not repeated by the flag parser.
type flagText struct{ typ, text string }

func (f *flagText) Set(s string) error { f.text = s; return nil }
func (f *flagText) String() string     { return f.text }
func (f *flagText) Type() string       { return f.typ }

// AddFlags registers --config and the flags of the keys in the scope. Load
// reads them back.
func AddFlags(flags *pflag.FlagSet, scope Scope) {
	if flags.Lookup(fileFlag) == nil {
		flags.Var(&flagText{typ: "file"}, fileFlag, "configuration file")
	}
	c := defaults()
	for _, k := range c.keys() {
		if k.scope&scope == 0 || k.flag == "" || flags.Lookup(k.flag) != nil {
			continue
		}
		flag := flags.VarPF(&flagText{typ: flagType(k)}, k.flag, "", flagHelp(k))
		if _, isBool := k.value.(boolValue); isBool {
			flag.NoOptDefVal = "true"
		}
	}
}

// flagType is the word help shows after the flag's name.
func flagType(k key) string {
	switch v := k.value.(type) {
	case boolValue:
		return "bool"
	case bytesValue:
		return "size"
	case durationValue:
		return "duration"
	case listValue:
		return "list"
	case secretValue:
		return "key"
	case levelValue, enumValue[string]:
		return "word"
	case textValue:
		return strings.ReplaceAll(strings.Fields(v.typ + " text")[0], "http(s)", "url")
	}
	if strings.Contains(k.value.Type(), " to ") {
		return "number"
	}
	return "word"
}

// flagHelp is the first sentence of the help and the default.
func flagHelp(k key) string {
	text, _, _ := strings.Cut(k.help, ". ")
	text = strings.ReplaceAll(strings.TrimSuffix(text, "."), "`", "")
	if def := k.value.String(); def != "" && def != "false" && !k.secret {
		text += " (default " + def + ")"
	}
	return text
}
