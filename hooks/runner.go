package hooks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"addon-operator/values"
)

const (
	// ConfigLimit bounds --config: a script that waits for something there would keep the operator
	// from starting.
	ConfigLimit = 30 * time.Second
	// maxConfig bounds what a hook may print for --config.
	maxConfig = 1 << 20
	// defaultGrace and defaultMaxResult replace zero values in Options.
	defaultGrace     = 10 * time.Second
	defaultMaxResult = 16 << 20
)

// Options configure a Runner; NewRunner replaces zero values by defaults.
type Options struct {
	TmpDir         string        // where the directories of runs are made; created if absent, refused if others rule it
	KeepFiles      bool          // leave these directories behind, for debugging
	Grace          time.Duration // between SIGTERM and SIGKILL; 0 means 10 s
	Log            *slog.Logger  // gets the output of hooks; nil means slog.Default()
	MaxResultBytes int64         // largest result file that is accepted; 0 means 16 MiB
	ProxyJSON      bool          // merge lines that are JSON objects into the log record (C28)
	Timeout        time.Duration // of runs of hooks that set none themselves, and of enabled scripts; 0 means none (C29)
	JQLibrary      []string      // directories of modules that jq expressions import
	Env            []string      // KEY=value, added to what hooks and scripts inherit
	Chroot         string        // root directory of hooks and scripts, which must lie below it, as TmpDir; "" means none
	May            func() error  // asked before each run of a hook or enabled script; its error refuses it. nil means always
	// Hide returns a text without known secrets. What a hook printed is cut after that; the log
	// hides them itself. nil hides none.
	Hide func(string) string
}

// Runner executes hooks and enabled scripts. It is safe for concurrent use; each execution has its
// own files. After Kill it starts nothing.
type Runner struct {
	options Options
	inUse   *os.File // its lock shows other operators that runs of this one lie in TmpDir
	groups  *groups
	shell   *shellLibrary
}

// NewRunner checks the options and that TmpDir can be written to. It removes the directories of
// runs that an operator which was killed has left there, unless files are kept or another operator
// uses the same TmpDir.
func NewRunner(options Options) (*Runner, error) {
	options.Grace = cmp.Or(options.Grace, defaultGrace)
	options.MaxResultBytes = cmp.Or(options.MaxResultBytes, defaultMaxResult)
	options.Log = cmp.Or(options.Log, slog.Default())
	if options.TmpDir == "" {
		return nil, errors.New("directory for temporary files: no path given")
	}
	// Hooks are started in other directories, so a relative path would lead elsewhere.
	path, err := filepath.Abs(options.TmpDir)
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	if err == nil {
		err = checkOwner(path)
	}
	if err == nil {
		err = checkWritable(path)
	}
	if err != nil {
		return nil, fmt.Errorf("directory for temporary files %s: %w", path, err)
	}
	options.TmpDir = path
	if err := checkChroot(&options); err != nil {
		return nil, err
	}
	return &Runner{options: options, inUse: claim(options), groups: &groups{may: options.May}, shell: newShellLibrary(options)}, nil
}

// Configure asks a file for its configuration: it runs the file with the argument --config and
// reads its stdout (C1, C2). It gives up after 30 seconds. An error of the configuration shows the
// beginning of what the file printed. A file is one hook, or a batch of several; the error of a
// batch is about some of its hooks, and the others are returned with it.
func (r *Runner) Configure(ctx context.Context, file File, workingDir string, scope Scope) ([]Hook, error) {
	if isBatch(file.Path) {
		return r.configureBatch(ctx, file, workingDir, scope)
	}
	config, err := r.configure(ctx, file, workingDir, scope)
	if err != nil {
		return nil, err
	}
	return []Hook{{File: file, Config: config}}, nil
}

// configure asks a file that is one hook. If it printed nothing, the error quotes nothing.
func (r *Runner) configure(ctx context.Context, file File, workingDir string, scope Scope) (*Config, error) {
	printed, err := r.ask(ctx, file, workingDir, "--config")
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(scope, printed, r.options.JQLibrary)
	if err != nil && len(bytes.TrimSpace(printed)) > 0 {
		return nil, &PrintedError{Hook: file.Name, Printed: printed, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	return config, nil
}

// ask runs a file with arguments and returns what it prints to stdout, at most maxConfig bytes. It
// is used for --config and for the questions to a batch. These runs are not gated, because a
// follower loads hooks, too, and they get no files: a hook must not act on them.
func (r *Runner) ask(ctx context.Context, file File, workingDir string, args ...string) ([]byte, error) {
	question := strings.Join(args, " ")
	ctx, cancel := context.WithTimeoutCause(ctx, ConfigLimit, fmt.Errorf("%s took more than %s", question, ConfigLimit))
	defer cancel()
	stdout := &head{limit: maxConfig}
	p := r.process(file.Name, file.Path, nil, r.environment(nil, workingDir))
	p.args, p.stdout = args, stdout
	if _, err := p.run(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", question, err)
	}
	if stdout.total > maxConfig {
		return nil, fmt.Errorf("hook %s: %s printed more than %d bytes", file.Name, question, maxConfig)
	}
	return stdout.data, nil
}

// Run is one execution of a hook: what the hook reads, and how its output is labelled.
type Run struct {
	Hook         Hook
	WorkingDir   string      // root of the hooks, for $WORKING_DIR/lib/…
	Contexts     []Context   // written as an array, also a single one (X18)
	Values       any         // merged values (D8); nil reads as {}
	ConfigValues any         // values of the ConfigMap only; nil reads as {}
	Labels       []slog.Attr // module, binding, queue, task …; the hook's name is added unless it is among them
	Env          []string    // KEY=value, added to the environment of this run
}

// Result is what a successful run wrote. It was read completely and its form was checked; nothing
// of it has an effect yet: the caller applies it (C26, D26).
type Result struct {
	ValuesPatch   values.Patch
	ConfigPatch   values.Patch
	Metrics       []Metric
	ObjectPatches []byte    // as the hook wrote it
	Response      *Response // to a webhook request; nil for other runs
	Warnings      []string  // deprecated forms and keys without meaning in the files; to be logged
	Usage         Usage     // filled in for failed runs too
	Output        string    // the last lines of stdout and then of stderr, for failed runs too; at most 8 KiB
}

// Run executes a hook once. The error is
//
//   - an *ExitError if the hook reports a failure, or a *TimeoutError if it took too long. The result
//     then still has the object patches: those with ignoreHookError are applied (K9);
//   - the wrapped error of ctx if that ended the run;
//   - otherwise everything that is wrong with the result files.
//
// Usage and Output are filled in after an error, too, if the process has started.
func (r *Runner) Run(ctx context.Context, run Run) (Result, error) {
	var result Result
	dir, err := makeRunDir(r.options.TmpDir, run.Hook.Name, r.options.MaxResultBytes)
	if err != nil {
		return result, fmt.Errorf("hook %s: %w", run.Hook.Name, err)
	}
	if discard := func() { r.discard(dir, run.Labels, run.Hook.Name) }; answers(asks(run)) {
		defer func() { go discard() }() // somebody waits for the answer
	} else {
		defer discard()
	}
	if err := writeRun(dir, run); err != nil {
		return result, fmt.Errorf("hook %s: %w", run.Hook.Name, err)
	}
	stdout := r.output(run.Labels, run.Hook.Name, "stdout")
	p := r.process(run.Hook.Name, run.Hook.Path, run.Labels, r.environment(slices.Concat(dir.env, run.Env), run.WorkingDir))
	p.args, p.stdout, p.limit, p.gated = run.Hook.arguments(), stdout, r.limit(), true
	if config := run.Hook.Config; config != nil && config.Settings.Timeout > 0 { // takes precedence
		p.limit = limit{config.Settings.Timeout, "settings.timeout of the hook"}
	}
	result.Usage, err = p.run(ctx)
	stdout.flush()
	result.Output = strings.Trim(stdout.ending()+"\n"+p.stderr.ending(), "\n")
	if run.Hook.Batch == settings {
		result.Warnings, err = checked(err)
	}
	if err != nil {
		if failedItself(err) {
			result.ObjectPatches, _ = dir.result(envObjectPatch) // what cannot be read asks for nothing
		}
		return result, err
	}
	if err := readRun(dir, asks(run), &result); err != nil {
		return Result{Usage: result.Usage, Output: result.Output}, fmt.Errorf("hook %s: %w", run.Hook.Name, err)
	}
	return result, nil
}

// process is an execution with what all have in common.
func (r *Runner) process(name, path string, labels []slog.Attr, env []string) process {
	return process{
		name: name, path: path, env: append(env, r.shell.environment(path)...), stderr: r.output(labels, name, "stderr"),
		grace: r.options.Grace, root: r.options.Chroot, groups: r.groups,
	}
}

// Kill ends everything that runs at once, by SIGKILL, and lets nothing start any more: another
// operator is about to take over (L5).
func (r *Runner) Kill() { r.groups.kill() }

// limit is the time limit of everything that sets none itself, with the name of the option.
func (r *Runner) limit() limit { return limit{r.options.Timeout, "ADDON_OPERATOR_HOOK_TIMEOUT"} }

// failedItself reports whether the hook has failed by itself, instead of being ended with its
// module or the operator.
func failedItself(err error) bool {
	var exit *ExitError
	var timeout *TimeoutError
	return errors.As(err, &exit) || errors.As(err, &timeout)
}

// writeRun makes all files of a run: those to read, and empty ones for what the hook writes (C23,
// C24).
func writeRun(dir *runDir, run Run) error {
	errs := []error{
		dir.write(envContext, func(w io.Writer) error { return writeContexts(w, run.Contexts) }),
		addTree(dir, envValues, run.Values),
		addTree(dir, envConfig, run.ConfigValues),
	}
	if run.Hook.Batch == settings {
		errs = append(errs, addTree(dir, envSettings, ownSettings(run.ConfigValues)))
	}
	nameResponse(dir, asks(run))
	for _, variable := range []string{envValuesPatch, envConfigPatch, envMetrics, envObjectPatch} {
		if answers(asks(run)) { // a file that is there takes longer to be written
			dir.name(variable, variable)
		} else {
			errs = append(errs, dir.add(variable, nil))
		}
	}
	return errors.Join(errs...)
}

// addTree writes values. nil reads as {}, so that a hook need not handle null.
func addTree(dir *runDir, variable string, tree any) error {
	if tree == nil {
		tree = map[string]any{}
	}
	data, err := values.JSON(tree)
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return dir.add(variable, data)
}

// readRun parses all result files and reports everything that is wrong with any of them, so that
// one run of the hook shows all mistakes (D26). Object patches are parsed later (package
// objectpatch): here only their size is checked.
func readRun(dir *runDir, asked ContextType, result *Result) error {
	read := func(variable string, parse func(data []byte) (warnings []string, err error)) error {
		data, err := dir.result(variable)
		if err != nil {
			return err
		}
		warnings, err := parse(data)
		for _, warning := range warnings {
			result.Warnings = append(result.Warnings, variable+": "+warning)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", variable, err)
		}
		return nil
	}
	patch := func(into *values.Patch) func([]byte) ([]string, error) {
		return func(data []byte) (warnings []string, err error) {
			*into, warnings, err = values.ParsePatch(data)
			return warnings, err
		}
	}
	var err error
	result.Response, err = readResponse(dir, asked)
	return errors.Join(err,
		read(envValuesPatch, patch(&result.ValuesPatch)),
		read(envConfigPatch, patch(&result.ConfigPatch)),
		read(envMetrics, func(data []byte) (warnings []string, err error) {
			result.Metrics, warnings, err = ParseMetrics(data)
			return warnings, err
		}),
		read(envObjectPatch, func(data []byte) ([]string, error) {
			result.ObjectPatches = data
			return nil, nil
		}),
	)
}

// environment returns the variables that a process gets in addition to what it inherits from the
// operator: those of the options, its files, and the root of the hooks. Of a variable that occurs
// twice the last one counts, so an option cannot replace a file.
func (r *Runner) environment(files []string, workingDir string) []string {
	return append(append(slices.Clone(r.options.Env), files...), envWorkingDir+"="+workingDir)
}

// output returns the log of one stream of a hook.
func (r *Runner) output(labels []slog.Attr, hook, stream string) *lineLog {
	return &lineLog{
		log:       slog.New(r.options.Log.Handler().WithAttrs(append(withHook(labels, hook), slog.String("stream", stream)))),
		proxyJSON: r.options.ProxyJSON,
		hide:      r.options.Hide,
	}
}

// withHook returns a copy of the labels with the name of the hook. The copy keeps concurrent runs
// from appending to one slice.
func withHook(labels []slog.Attr, hook string) []slog.Attr {
	if slices.ContainsFunc(labels, func(label slog.Attr) bool { return label.Key == "hook" }) {
		return slices.Clone(labels)
	}
	return append(slices.Clone(labels), slog.String("hook", hook))
}

// discard removes the files of a run, or logs where they are kept. A failure to remove them is no
// failure of the hook.
func (r *Runner) discard(dir *runDir, labels []slog.Attr, hook string) {
	log := slog.New(r.options.Log.Handler().WithAttrs(withHook(labels, hook)))
	if r.options.KeepFiles {
		log.Info("files of the run are kept", "path", dir.path)
		return
	}
	if err := dir.remove(); err != nil {
		log.Warn("files of the run cannot be removed", "path", dir.path, "err", err)
	}
}

// Usage is the cost of one execution (C30).
type Usage struct {
	Wall   time.Duration
	User   time.Duration // CPU time of the hook and of the children it has waited for
	System time.Duration
	// MaxRSS is the largest resident memory of one of these processes in bytes, or 0 when it is not
	// known: the kernel counts the memory of the process that starts another one towards that one,
	// so its figure is about the hook only when it is above the operator's own peak.
	MaxRSS int64
}

// usageOf has the figures of the kernel.
func usageOf(state *os.ProcessState, wall time.Duration) Usage {
	usage := Usage{Wall: wall}
	if state == nil {
		return usage
	}
	usage.User, usage.System = state.UserTime(), state.SystemTime()
	rusage, ok := state.SysUsage().(*syscall.Rusage)
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); ok && err == nil && rusage.Maxrss > self.Maxrss {
		usage.MaxRSS = int64(rusage.Maxrss) * rssUnit
	}
	return usage
}

// checkChroot makes the option absolute and checks that hooks find their files with it: later, a hook
// would only report "no such file".
func checkChroot(options *Options) error {
	if options.Chroot == "" {
		return nil
	}
	root, err := filepath.Abs(options.Chroot)
	if err != nil {
		return fmt.Errorf("root directory of hooks: %w", err)
	}
	options.Chroot = root
	if !Below(root, options.TmpDir) {
		return fmt.Errorf("root directory of hooks %s: the directory for temporary files, %s, is not below it, so no hook could read or write there", root, options.TmpDir)
	}
	if found, err := filepath.EvalSymlinks(root); err != nil {
		return fmt.Errorf("root directory of hooks: %w", err)
	} else if found != root {
		return fmt.Errorf("root directory of hooks %s: is a symbolic link; use %s", root, found)
	}
	return nil
}

// Below reports whether a path is root or below it. It compares texts only; symbolic links may lead
// elsewhere.
func Below(root, path string) bool {
	rest, err := filepath.Rel(root, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// inside returns a path as a process sees it whose root directory is root; "" for none.
func inside(root, path string) string {
	if root == "" {
		return path
	}
	rest, err := filepath.Rel(root, path)
	if err != nil || !Below(root, path) {
		return path // the process will say that it is not there
	}
	return filepath.Join("/", rest)
}

// environment returns the variables of the process with paths as it sees them. Values that are no
// paths below the root stay as they are.
func (p process) environment() []string {
	env := make([]string, len(p.env))
	for i, variable := range p.env {
		name, path, _ := strings.Cut(variable, "=")
		env[i] = name + "=" + inside(p.root, path)
	}
	return env
}

// longestShebang is the number of bytes of the first line of a script that the kernel reads.
const longestShebang = 256

// CheckInterpreter returns what is wrong with the first line of a script, and what to write
// instead: the kernel only reports "no such file or directory" or "exec format error". It returns
// nil for programs that are no scripts, and for files that it cannot read. root is the root
// directory of the script as in Options.Chroot; "" for none.
func CheckInterpreter(root, path string) error {
	head := readStart(path, longestShebang)
	if len(head) == 0 {
		return nil
	}
	line, _, ended := bytes.Cut(head, []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	switch {
	case !bytes.HasPrefix(head, []byte("#!")) && (!utf8.Valid(line) || bytes.ContainsRune(line, 0)):
		return nil
	case !bytes.HasPrefix(head, []byte("#!")):
		return errors.New("line 1: the script has no interpreter; begin it with a line such as #!/usr/bin/env bash")
	case ended && bytes.HasSuffix(line, []byte("\r")):
		return errors.New("line 1: it ends with a carriage return, as on Windows, which becomes part of the interpreter's name; save the file with Unix line endings, for example with sed -i 's/\\r$//'")
	case len(words) == 0:
		return errors.New("line 1: #! names no interpreter; write a line such as #!/usr/bin/env bash")
	}
	if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
		return fmt.Errorf("line 1: the interpreter %s does not exist here; install it, or correct the name", words[0])
	}
	return nil // env names the program that it does not find
}

// readStart returns the first bytes of a regular file, at most limit, and nothing of another one or of one that cannot
// be read.
func readStart(path string, limit int64) []byte {
	// Without O_NONBLOCK the open of a named pipe would wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil
	}
	return text
}

// EnabledScript is one execution of a module's enabled script.
type EnabledScript struct {
	Module       string
	Path         string // absolute; its directory is the directory of the module
	Values       any
	ConfigValues any
	Labels       []slog.Attr
	Env          []string // KEY=value, added to the environment of this execution
}

// Answer is the answer of an enabled script.
type Answer struct {
	Enabled bool
	Reason  string // what it wrote to MODULE_ENABLED_REASON, shortened; "" for nothing
}

// Enabled runs a module's enabled script, which writes true or false to the file
// MODULE_ENABLED_RESULT (E6). Scripts of the first generation print the word instead, which is
// accepted with a warning in the log if the file is empty (X19). What the script writes to
// MODULE_ENABLED_REASON is returned and logged. Every other answer is an error, as is a failure of
// the script: the caller then does not know whether the module is enabled.
func (r *Runner) Enabled(ctx context.Context, s EnabledScript) (Answer, error) {
	name := s.Module + "/enabled"
	dir, err := makeRunDir(r.options.TmpDir, name, r.options.MaxResultBytes)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	defer r.discard(dir, s.Labels, name)
	err = errors.Join(
		addTree(dir, envValues, s.Values),
		addTree(dir, envConfig, s.ConfigValues),
		dir.add(envEnabled, nil),
		dir.add(envReason, nil),
	)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	// 64 bytes are enough for either word with white space around it; anything longer is no answer.
	stdout, printed := r.output(s.Labels, name, "stdout"), &head{limit: 64}
	p := r.process(name, s.Path, s.Labels, r.environment(slices.Concat(dir.env, s.Env), filepath.Dir(filepath.Dir(s.Path))))
	p.stdout, p.limit, p.gated = io.MultiWriter(stdout, printed), r.limit(), true
	_, err = p.run(ctx)
	stdout.flush()
	if err != nil {
		return Answer{}, err
	}
	log := slog.New(r.options.Log.Handler().WithAttrs(withHook(s.Labels, name)))
	answer, err := readEnabled(dir, printed, log)
	if err != nil {
		return Answer{}, fmt.Errorf("hook %s: %w", name, err)
	}
	return answer, nil
}

// readEnabled reads the answer from the file, or from the beginning of stdout if the file is empty.
func readEnabled(dir *runDir, printed *head, log *slog.Logger) (Answer, error) {
	answer, err1 := dir.result(envEnabled)
	reason, err2 := dir.result(envReason)
	if err := errors.Join(err1, err2); err != nil {
		return Answer{}, err
	}
	word := string(bytes.TrimSpace(answer))
	if said := strings.TrimSpace(string(printed.data)); word == "" && printed.total <= printed.limit && isBool(said) {
		word = said
		log.Warn("enabled script printed its answer to stdout; write it to the file in MODULE_ENABLED_RESULT", "answer", word)
	}
	switch {
	case word == "":
		return Answer{}, fmt.Errorf("wrote nothing to %s; write true or false", envEnabled)
	case !isBool(word):
		return Answer{}, fmt.Errorf("wrote %q to %s; write true or false", shorten(answer, 80), envEnabled)
	}
	text := shorten(reason, 1000)
	if text != "" {
		log.Info("enabled script gave a reason", "enabled", word == "true", "reason", text)
	}
	return Answer{Enabled: word == "true", Reason: text}, nil
}

func isBool(word string) bool {
	return word == "true" || word == "false"
}
