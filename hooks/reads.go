package hooks

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxPrograms bounds what is read of the files of a module to learn what its hooks read, in bytes.
const maxPrograms = 1 << 20

// Reads is what is known of the values that programs of a module read: its hooks, its enabled script, and what lies with them.
type Reads struct {
	certain bool
	scripts bool // all of them are shell scripts that are complete in themselves
	text    string
}

// ReadsOf looks through the files below the directory of a module, but for those that skip names by their path in it. Nothing is
// certain unless all programs are shell scripts that read values in no other way than this:
//
//	jq -r '.section.key // "default" | anything' "$VALUES_PATH"
func ReadsOf(dir string, skip func(name string) bool) (r Reads) {
	var all strings.Builder
	r.certain, r.scripts = true, true
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil || name == ".":
			return err
		case skip(name) && entry.IsDir():
			return fs.SkipDir
		case skip(name) || entry.IsDir():
			return nil
		}
		info, err := os.Stat(path) // a link to a directory is not followed, and nothing is certain
		if err != nil || !info.Mode().IsRegular() || int64(all.Len())+info.Size() > maxPrograms {
			r.certain, r.scripts = false, false
			return fs.SkipAll
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all.Write(data)
		r.note(name, string(data))
		return nil
	})
	r.certain, r.scripts = r.certain && err == nil, r.scripts && err == nil
	r.text = all.String()
	return r
}

// note notes what kind of file there is.
func (r *Reads) note(name, text string) {
	if !skippedFile(name) {
		r.certain = r.certain && plainScript(text)
		r.scripts = r.scripts && isShell(text) && !regexp.MustCompile(runsOthers).MatchString(withoutModes(text))
	}
}

// May reports whether a program may read a value. The path begins with the section. It may when any of the keys
// below the section occurs anywhere in their text.
func (r Reads) May(path []string) bool {
	return !r.certain || slices.ContainsFunc(path[1:], func(key string) bool { return strings.Contains(r.text, key) })
}

// MaySet reports whether a program may set a value, or a part of it. The path begins with the section. It may when any of the keys below
// the section occurs anywhere in their text, when they name the section without a key below it, as who replaces it does, or name no key
// of it at all though they write patches: then the path is computed.
func (r Reads) MaySet(path []string) bool {
	if !r.scripts || slices.ContainsFunc(path[1:], func(key string) bool { return strings.Contains(r.text, key) }) {
		return true
	}
	named := regexp.MustCompile(`[/"']`+regexp.QuoteMeta(path[0])+`([/.][A-Za-z_]|\b)`).FindAllStringSubmatch(r.text, -1)
	return slices.ContainsFunc(named, func(m []string) bool { return m[1] == "" }) || len(named) == 0 && strings.Contains(r.text, "_PATCH_PATH")
}

// runsOthers finds commands of a shell by which a script runs what stands elsewhere, or reads all of its environment.
const runsOthers = `(?m)(^|[\s;&|({])(exec|eval|source|\.|env|printenv|export -p|declare|set)(\s|$)`

func isShell(text string) bool {
	return regexp.MustCompile(`^#!\s*\S*(/|/env\s+(-S\s+)?)(ba|da|a)?sh\b`).MatchString(text)
}

// plainScript reports whether a text is a shell script that hands values to no one, by what it says, but to jq for
// one path below a section.
func plainScript(text string) bool {
	if !isShell(text) {
		return false
	}
	const (
		path    = `\.\w+(\.[A-Za-z_]\w*)+\??`
		literal = `("[^"$\\]*"|-?\d+|true|false|null|empty|\[\]|\{\})`
		value   = path + `(\s*//\s*` + literal + `)?`
		file    = `\s+(<\s*)?"?\$\{?(CONFIG_)?VALUES_PATH\b\}?"?`
	)
	read := regexp.MustCompile(`\bjq(\s+-{1,2}[a-z-]+)*\s+('\s*` + value + `\s*(\|[^']*)?'|"` + path + `"|` + path + `)` + file)
	written := regexp.MustCompile(`\bVALUES_JSON_PATCH_PATH|\bCONFIG_VALUES_JSON_PATCH_PATH`)
	var code []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			code = append(code, line)
		}
	}
	rest := written.ReplaceAllString(read.ReplaceAllString(strings.Join(code, ""), ""), "")
	return !strings.Contains(strings.ToLower(rest), "values") && !regexp.MustCompile(runsOthers).MatchString(withoutModes(rest))
}

// withoutModes leaves out "set -e" and its like, which read nothing.
func withoutModes(code string) string {
	return regexp.MustCompile(`(?m)^\s*set [-+][a-zA-Z]+( pipefail)?\s*$`).ReplaceAllString(code, "")
}
