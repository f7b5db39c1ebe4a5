package jq

import (
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
)

// A search is one step of the library, which for each match counts the characters before it. So its time grows with the
// matches times the length of the text: it is 20 minutes for each "a" in a MiB of them.
const (
	maxSearch = 512 << 20 // of what a search costs; one is about a nanosecond
	perPart   = 16        // for each character that is looked at, and each part of the expression
	maxRegex  = 2 << 10   // bytes; a repetition makes up to 1000 times as much of it
	maxKept   = 100       // expressions: the library forgets none that it has compiled

	bytesPerPart = 256 // in memory
)

type regex struct {
	*regexp.Regexp
	parts int
}

// compiled is a regular expression; nil for one that the library refuses.
func (p *Program) compiled(text string) *regex {
	if p.regexes[text] == nil {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil
		}
		code, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil
		}
		p.regexes[text] = &regex{regexp.MustCompile(text), len(code.Inst)}
		p.made += len(code.Inst) * bytesPerPart
	}
	return p.regexes[text]
}

// search returns an error if a search takes too long. args are the expression and flags, as those of jq. What the
// library refuses is no error here.
func (p *Program) search(input any, args []any, all bool) error {
	if list, ok := args[0].([]any); ok {
		args = list
	}
	text, _ := input.(string)
	expression, flags := "", ""
	if len(args) > 0 {
		expression, _ = args[0].(string)
	}
	if len(args) > 1 {
		flags, _ = args[1].(string)
	}
	if len(expression) > maxRegex {
		return fmt.Errorf("a regular expression has more than %d KiB", maxRegex>>10)
	}
	for _, flag := range []struct{ name, written string }{{"i", "(?i)"}, {"m", "(?s)"}} {
		if strings.Contains(flags, flag.name) {
			expression = flag.written + expression
		}
	}
	re := p.compiled(expression)
	if re == nil {
		return nil
	}
	all = all || strings.Contains(flags, "g")
	for left, rest := maxSearch, text; ; {
		left -= (1 + re.NumSubexp()) * len(text)
		reader := &bounded{strings.NewReader(rest), left / perPart / re.parts}
		left -= perPart * re.parts * reader.left
		found := re.FindReaderIndex(reader)
		left += perPart * re.parts * reader.left
		switch {
		case reader.left <= 0:
			return fmt.Errorf(`a regular expression takes too long in a text of %d KiB; search each of its lines: split("\n")[]`,
				len(text)>>10)
		case !all || found == nil || found[0] == len(rest):
			return nil
		}
		rest = rest[max(found[1], found[0]+1):]
	}
}

// bounded is a text of which only so many characters are read.
type bounded struct {
	*strings.Reader
	left int
}

// ReadRune implements io.RuneReader.
func (b *bounded) ReadRune() (rune, int, error) {
	if b.left--; b.left < 0 {
		return 0, 0, io.EOF
	}
	return b.Reader.ReadRune()
}
