package policy

import (
	"strings"
	"unicode"

	"parley/internal/conversation"
	"parley/internal/lazyre"
)

// The phrases of somebody who talks to the model in place of the user. Texts are
// in lower case and have single blanks when they are held against them.
var (
	takesOver = phrase(`\b(?:ignore|disregard|forget|override|bypass|do not follow|stop following)(?: [\w']+){0,4} (?:previous|prior|above|earlier|preceding|foregoing|system|your)(?: [\w']+){0,2} (?:instructions?|prompts?|rules|guidelines|directions|directives|constraints|policies|programming|training)\b` +
		`|\byou are now (?:in |an? |the )?(?:developer|dan|jailbr[eo]a?k\w*|god|unrestricted|unfiltered|evil|root)\b` +
		`|\b(?:enable|enter|activate) (?:developer|dan|jailbreak|god|unrestricted) mode\b`)
	persuades = phrase(`<\|(?:im_start|im_end|system|start_header_id|endoftext)\|>|\[/?inst\]|<</?sys>>|</?(?:system|assistant)(?:_prompt|-prompt)?>|(?:^|\n|#) ?system ?(?:prompt|message|override) ?:` +
		`|\b(?:do not|don't|never|without) (?:tell|telling|inform|informing|alert|alerting|notify|notifying|warn|warning) (?:the )?(?:user|human|owner|developer)\b` +
		`|\b(?:reveal|leak|exfiltrate|send me|post|forward|repeat|print)(?: [\w']+){0,3} (?:system prompt|hidden instructions|initial instructions|api keys?|credentials|secrets|passwords|private keys?)\b` +
		`|\bnew (?:system )?instructions ?:|\bfrom now on,? you (?:are|must|will|shall)\b|\bpretend (?:to be|you are|that you)\b|\bact as (?:an? )?(?:unrestricted|jailbroken|root|different|evil)\b` +
		`|security_risk["']? ?[:=] ?["']?low\b|\b(?:mark|label|classify|rate) (?:this|it|everything|all)(?: [\w']+){0,4} (?:as )?(?:low risk|safe|harmless)\b`)
)

// phrase compiles a pattern in which a blank stands for any white space.
func phrase(pattern string) *lazyre.Regexp {
	return lazyre.MustCompile(strings.ReplaceAll(pattern, " ", `\s`))
}

// injection looks for such phrases, and for characters that hide what is written.
func injection(s *scan, text string) {
	plain, hidden := plainText(text)
	if hidden {
		s.find("hidden_characters", conversation.RiskMedium)
	}
	switch {
	case takesOver.MatchString(plain):
		s.high("injection")
	case persuades.MatchString(plain):
		s.medium("injection")
	}
}

// plainText is a text as somebody reads it: without invisible characters, in lower
// case and with single blanks; line ends stay. hidden says that there are
// characters that turn the order of what is read, or that nobody sees.
func plainText(text string) (plain string, hidden bool) {
	var b strings.Builder
	b.Grow(len(text))
	last := ' '
	for _, r := range text {
		switch {
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r >= 0xe0000 && r <= 0xe007f:
			hidden = true
			continue
		case unicode.Is(unicode.Cf, r) || r == 0x00ad:
			continue
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xfee0 // full width
		case r == '\n':
		case unicode.IsSpace(r):
			r = ' '
		}
		if r == ' ' && (last == ' ' || last == '\n') || r == '\n' && last == '\n' {
			continue
		}
		last = r
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String(), hidden
}
