package scenario

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"addon-operator/values"
)

// mostCalls is how many calls of a stand-in are answered, so that a hook that loops ends, and its
// test does not fill the disk.
const mostCalls = 1000

// answer is what a stand-in for a command writes, and how it exits.
type answer struct {
	Args   *string `json:"args"` // pattern of all, with * and ?; nil: any
	Stdout any     `json:"stdout"`
	Stderr string  `json:"stderr"`
	Exit   int     `json:"exit"`
	Stdin  bool    `json:"stdin"` // read and note it
	Times  int     `json:"times"` // 0: always
}

// call is one of a stand-in for a command.
type call struct {
	command string
	args    []string
	stdin   string // without its end above 1 MiB; "" if the answer does not want it
	unfit   bool   // there was no answer
}

// String is the call in a line.
func (c call) String() string { return strings.TrimSpace(c.command + " " + strings.Join(c.args, " ")) }

// commands take the place of the programs that hooks call, by shell scripts that come first in
// their PATH. A script runs in a process of the hook, perhaps
// at the same time as others, so all state is in files:
//
//	bin/NAME                   the script
//	calls/NAME/stdout.I        what answer I writes; stderr.I likewise
//	calls/NAME/K/args          the arguments of call K, from 1, each ended by a zero byte
//	calls/NAME/K/stdin, unfit  what it read; that it had no answer
//	calls/NAME/used.I.N        answer I was given N times; only for answers with times
type commands struct {
	dir     string
	answers map[string][]answer // by name of the command
	read    map[string]int      // how many calls take has returned, by command
}

// bin is the directory of the programs, which belongs into the PATH.
func (s *commands) bin() string              { return filepath.Join(s.dir, "bin") }
func (s *commands) notes(name string) string { return filepath.Join(s.dir, "calls", name) }

// write makes the programs. Each answer becomes a case of the script, in the order of the test: the
// first one that fits and is not used up writes its files and ends the script. What follows the
// last case is for calls without an answer, which check reports even if the hook ignores the exit
// code.
func (s *commands) write() error {
	s.read = map[string]int{}
	for name, list := range s.answers {
		notes := s.notes(name)
		if err := errors.Join(os.MkdirAll(s.bin(), 0o755), os.MkdirAll(notes, 0o755)); err != nil {
			return err
		}
		script := fmt.Sprintf(standInStart, quoted(os.Getenv("PATH")), quoted(notes), mostCalls, name)
		for i, a := range list {
			for stream, text := range map[string]string{"stdout": textOf(a.Stdout), "stderr": textOf(a.Stderr)} {
				if err := os.WriteFile(filepath.Join(notes, fmt.Sprintf("%s.%d", stream, i)), []byte(text), 0o644); err != nil {
					return err
				}
			}
			pattern, stdin := "*", ""
			if a.Args != nil {
				pattern = shellPattern(*a.Args)
			}
			if a.Stdin {
				stdin = `head -c 1048576 >"$k/stdin"; `
			}
			script += fmt.Sprintf(standInAnswer, pattern, i, a.Times, stdin, i, i, a.Exit)
		}
		script += fmt.Sprintf(": >\"$k/unfit\"\necho \"%s: the test has no answer for: $*\" >&2\nexit 1\n", name)
		if err := os.WriteFile(filepath.Join(s.bin(), name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// standInStart notes the call in a directory of its number, and has the function claim ANSWER TIMES,
// which succeeds at most TIMES times, or always for 0. mkdir fails if there is such a
// directory, so it counts correctly when hooks call at the same time. PATH is set to that
// of the test's process, or the script would call stand-ins for mkdir, cat and head.
//
// Its parameters are that PATH, the directory of the notes, mostCalls and the name.
const standInStart = `#!/bin/sh
PATH=%s
d=%s
n=1
until [ ! -e "$d/$n" ] && mkdir "$d/$n" 2>/dev/null; do
  n=$((n + 1))
  [ $n -le %d ] || { echo "%s: too many calls for one test" >&2; exit 1; }
done
k=$d/$n
for a do printf '%%s\000' "$a"; done >"$k/args"
claim() {
  [ "$2" -gt 0 ] || return 0
  n=1
  until mkdir "$d/used.$1.$n" 2>/dev/null; do n=$((n + 1)); [ $n -le "$2" ] || return 1; done
}
`

// standInAnswer is the case of one answer.
const standInAnswer = `case "$*" in %s)
  if claim %d %d; then %scat "$d/stdout.%d"; cat "$d/stderr.%d" >&2; exit %d; fi ;;
esac
`

// quoted is a text as a word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// shellPattern is a pattern for case in which nothing but * and ? has a meaning. The empty word in
// front makes it one also when the pattern is empty.
func shellPattern(pattern string) string {
	return quoted("") + regexp.MustCompile(`[^*?]+`).ReplaceAllStringFunc(pattern, quoted)
}

// likePattern reports whether a text is as a pattern with * and ?, by the rules of shellPattern: *
// also stands for slashes and ends of lines.
func likePattern(pattern, text string) bool {
	expression := regexp.QuoteMeta(pattern)
	expression = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(expression)
	return regexp.MustCompile(`(?s)^` + expression + `$`).MatchString(text)
}

// textOf is what a stand-in writes: lines, or JSON of anything else.
func textOf(value any) string {
	text, ok := value.(string)
	if !ok && value != nil {
		data, err := values.JSON(value)
		if err != nil {
			return err.Error()
		}
		text = string(data)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// take returns the calls since it was called last, by command, and those of a command in their
// order. It is called when the operator is idle; a call of a program that a hook has left behind
// may appear later.
func (s *commands) take() (calls []call) {
	for _, name := range slices.Sorted(maps.Keys(s.answers)) {
		for {
			dir := filepath.Join(s.notes(name), strconv.Itoa(s.read[name]+1))
			if _, err := os.Stat(dir); err != nil {
				break
			}
			s.read[name]++
			args, _ := os.ReadFile(filepath.Join(dir, "args")) // a script that was killed may have none
			c := call{command: name, args: strings.Split(string(args), "\x00")}
			c.args = c.args[:len(c.args)-1]
			stdin, _ := os.ReadFile(filepath.Join(dir, "stdin")) // it is there when it was asked for
			c.stdin = string(stdin)
			_, err := os.Stat(filepath.Join(dir, "unfit"))
			c.unfit = err == nil
			calls = append(calls, c)
		}
	}
	return calls
}

// Unlike implements match.Happened: another command is another call, other arguments are a difference. A list of
// arguments is compared one by one, a text, which is a pattern, and matchers with all of them, joined by spaces.
func (c call) Unlike(want map[string]any) (list []string, isIt bool) {
	if want["command"] != c.command {
		return nil, false
	}
	all := strings.Join(c.args, " ")
	switch args := want["args"].(type) {
	case string:
		if !likePattern(args, all) {
			list = append(list, fmt.Sprintf("args must be like %q, is %q", args, all))
		}
	case []any:
		list = Difference("args", args, plain(c.args))
	case map[string]any:
		list = Difference("args", args, all)
	}
	if stdin, ok := want["stdin"]; ok {
		list = append(list, Difference("stdin", stdin, strings.TrimSuffix(c.stdin, "\n"))...)
	}
	return list, true
}

// check compares the calls of stand-ins since the last expect. One that had no answer is a problem
// always.
func (s *commands) check(want []map[string]any) (problems []string) {
	calls := s.take()
	for _, c := range calls {
		if c.unfit {
			problems = append(problems, fmt.Sprintf("given.commands.%s has no answer for the call: %s", c.command, c))
		}
	}
	return append(problems, unmatched(want, calls, "call")...)
}
