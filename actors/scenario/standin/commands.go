package standin

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"addon-operator/actors/scenario/match"
	"addon-operator/values"
)

// mostCalls is how many calls of a stand-in are answered, so that a hook that loops ends, and its
// test does not fill the disk.
const mostCalls = 1000

// Answers are one answer or a list of them.
type Answers = match.List[answer]

// answer is what a stand-in for a command writes, and how it exits.
type answer struct {
	Args   *string     `json:"args"` // pattern of all, with * and ?; nil: any
	Stdout match.Value `json:"stdout"`
	Stderr string      `json:"stderr"`
	Exit   int         `json:"exit"`
	Stdin  bool        `json:"stdin"` // read and note it
	Times  int         `json:"times"` // 0: always
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

// Commands take the place of the programs that hooks call, by shell scripts that come first in
// their PATH. (For HTTP servers see HTTP.) A script runs in a process of the hook, perhaps
// at the same time as others, so all state is in files:
//
//	bin/NAME                   the script
//	calls/NAME/stdout.I        what answer I writes; stderr.I likewise
//	calls/NAME/K/args          the arguments of call K, from 1, each ended by a zero byte
//	calls/NAME/K/stdin, unfit  what it read; that it had no answer
//	calls/NAME/used.I.N        answer I was given N times; only for answers with times
type Commands struct {
	dir      string
	commands map[string]Answers
	read     map[string]int // how many calls take has returned, by command
}

// NewCommands makes stand-ins with these answers, by name of the command; Write puts them below dir.
func NewCommands(dir string, commands map[string]Answers) *Commands {
	return &Commands{dir: dir, commands: commands}
}

// Bin is the directory of the programs, which belongs into the PATH.
func (s *Commands) Bin() string              { return filepath.Join(s.dir, "bin") }
func (s *Commands) notes(name string) string { return filepath.Join(s.dir, "calls", name) }

// Write makes the programs. Each answer becomes a case of the script, in the order of the test: the
// first one that fits and is not used up writes its files and ends the script. What follows the
// last case is for calls without an answer, which Check reports even if the hook ignores the exit
// code.
func (s *Commands) Write() error {
	s.read = map[string]int{}
	for name, list := range s.commands {
		notes := s.notes(name)
		if err := os.MkdirAll(notes, 0o755); err != nil {
			return err
		}
		script := fmt.Sprintf(standInStart, quoted(os.Getenv("PATH")), quoted(notes), mostCalls, name)
		for i, a := range list {
			for stream, text := range map[string]string{"stdout": textOf(a.Stdout.Any), "stderr": textOf(a.Stderr)} {
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
			script += fmt.Sprintf("case \"$*\" in %s) if claim %d %d; then %scat \"$d/stdout.%d\"; cat \"$d/stderr.%d\" >&2; exit %d; fi;; esac\n", pattern, i, a.Times, stdin, i, i, a.Exit)
		}
		script += fmt.Sprintf(": >\"$k/unfit\"\necho \"%s: the test has no answer for: $*\" >&2\nexit 1\n", name)
		if err := s.program(name, script); err != nil {
			return err
		}
	}
	return nil
}

// program writes an executable file.
func (s *Commands) program(name, script string) error {
	if err := os.MkdirAll(s.Bin(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.Bin(), name), []byte(script), 0o755)
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
func (s *Commands) take() (calls []call) {
	for _, name := range slices.Sorted(maps.Keys(s.commands)) {
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

// Call is an expected call of a command.
type Call struct {
	Command string      `json:"command"`
	Args    match.Value `json:"args"` // a pattern, a list, or matchers of the text
	Stdin   match.Value `json:"stdin"`
	Times   *int        `json:"times"`
}

// String names the call for messages.
func (w Call) String() string {
	if w.Args.Any == nil {
		return w.Command
	}
	return w.Command + " " + match.Short(w.Args.Any)
}

// Exactly implements match.Wanted.
func (w Call) Exactly() *int { return w.Times }

// Unlike implements match.Wanted: another command is another call, other arguments are a difference. A
// list of arguments is compared one by one, a text with all of them, joined by spaces.
func (w Call) Unlike(c call) (list []string, isIt bool) {
	if w.Command != c.command {
		return nil, false
	}
	list = differenceOfText("args", w.Args.Any, strings.Join(c.args, " "))
	if wanted, ok := w.Args.Any.([]any); ok {
		args := []any{}
		for _, a := range c.args {
			args = append(args, a)
		}
		list = match.Difference("args", wanted, args)
	}
	if w.Stdin.Any != nil {
		list = append(list, match.Difference("stdin", w.Stdin.Any, strings.TrimSuffix(c.stdin, "\n"))...)
	}
	return list, true
}

// differenceOfText compares with a pattern, or with matchers; nil wants nothing.
func differenceOfText(place string, want any, got string) []string {
	if pattern, ok := want.(string); ok && !likePattern(pattern, got) {
		return []string{fmt.Sprintf("%s must be like %q, is %q", place, pattern, got)}
	}
	if _, ok := match.AsMatchers(want); ok {
		return match.Difference(place, want, got)
	}
	return nil
}

// Check compares the calls of stand-ins since the last expect. One that had no answer is a problem
// always.
func (s *Commands) Check(want []Call) (problems []string) {
	calls := s.take()
	for _, c := range calls {
		if c.unfit {
			problems = append(problems, fmt.Sprintf("given.commands.%s has no answer for the call: %s", c.command, c))
		}
	}
	return append(problems, match.Unmatched(want, calls, "call")...)
}

// Date makes a stand-in for date that shows the clock of the test.
func (s *Commands) Date() error {
	return s.program("date", fmt.Sprintf(dateStandIn, quoted(os.Getenv("PATH"))))
}

// dateStandIn shows the clock of the test to scripts that call date. Calls that do not ask for the
// time now, such as for that of a file (-r), or in which the test has no clock, go to the real
// program. GNU date knows -d @SECONDS; where that fails (BSD, macOS), -r SECONDS shows the time,
// and relative dates are not known. With GNU date, a date such as '1 hour ago' (said) is taken
// relative to the time of the test, and, if that does not make sense, as it is: it names a day.
//
// Its parameter is the PATH on which the real date is.
const dateStandIn = `#!/bin/sh
PATH=%s
for a do
  case $a in -r | -f | -s | --reference* | --file* | --set*) exec date "$@" ;; esac
done
[ -n "${TEST_NOW:-}" ] || exec date "$@"
date -d @0 >/dev/null 2>&1 || exec date -r "$SOURCE_DATE_EPOCH" "$@"
said= n=$#
while [ $n -gt 0 ]; do
  n=$((n - 1)) a=$1
  shift
  case $a in
  -d | --date) said=${1:-} n=$((n - 1)); shift ;;
  --date=*) said=${a#--date=} ;;
  -d?*) said=${a#-d} ;;
  *) set -- "$@" "$a" ;;
  esac
done
[ -n "$said" ] || exec date -d "@$SOURCE_DATE_EPOCH" "$@"
date -d "$(date -u -d "@$SOURCE_DATE_EPOCH" '+%%Y-%%m-%%d %%H:%%M:%%S UTC') $said" "$@" 2>/dev/null || exec date -d "$said" "$@"
`
