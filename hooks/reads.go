package hooks

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxPrograms bounds how much of the files of a module is read to learn what its hooks read, in
// bytes. Of a larger module nothing is certain.
const maxPrograms = 1 << 20

// Reads is what is known of the values that the programs of a module read: its hooks, its
// enabled script, and the files next to them (H23). It is used for warnings only, so it errs on the
// side of "may".
type Reads struct {
	// certain: all of them are plain scripts (plainScript), so a key that does not occur in text is
	// not read.
	certain bool
	text    string
}

// ReadsOf reads the files below the directory of a module, except those whose path in it skip
// selects. Nothing is certain unless all programs are shell scripts that read values in no other
// way than this:
//
//	jq -r '.section.key // "default" | anything' "$VALUES_PATH"
func ReadsOf(dir string, skip func(name string) bool) (r Reads) {
	var all strings.Builder
	r.certain = true
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target // else the walk ends at a link
	}
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
			r.certain = false
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
	r.certain = r.certain && err == nil
	r.text = all.String()
	return r
}

// note takes one file into account. Files that can be no programs only contribute their text.
func (r *Reads) note(name, text string) {
	if !skippedFile(name) {
		r.certain = r.certain && plainScript(text)
	}
}

// May reports whether a program may read a value. The path begins with the section. It may if any
// of the keys below the section occurs anywhere in their text.
func (r Reads) May(path []string) bool {
	return !r.certain || slices.ContainsFunc(path[1:], func(key string) bool { return strings.Contains(r.text, key) })
}

// runsOthers matches shell commands by which a script runs code from elsewhere, or reads its whole
// environment.
const runsOthers = `(?m)(^|[\s;&|({])(exec|eval|source|\.|env|printenv|export -p|declare|set)(\s|$)`

// isShell reports whether the first line of a text names a shell, directly or by env.
func isShell(text string) bool {
	return regexp.MustCompile(`^#!\s*\S*(/|/env\s+(-S\s+)?)(ba|da|a)?sh\b`).MatchString(text)
}

// plainScript reports whether a text is a shell script that, as far as its text shows, passes
// values to no program but jq, for one path below a section. It removes the calls of jq that are
// understood, and the variables for patches; if the rest contains "values" in any form, or runs
// code from elsewhere, the script is not plain.
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

// withoutModes removes "set -e" and its like, which read nothing.
func withoutModes(code string) string {
	return regexp.MustCompile(`(?m)^\s*set [-+][a-zA-Z]+( pipefail)?\s*$`).ReplaceAllString(code, "")
}
