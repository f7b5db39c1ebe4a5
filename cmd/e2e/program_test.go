package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	cmdoperator "addon-operator/cmd/operator"
)

const (
	// programVariable says to all tests where the program is, sourcesVariable which files it
	// is made of.
	programVariable, sourcesVariable = "ADDON_OPERATOR_E2E_PROGRAM", "ADDON_OPERATOR_E2E_SOURCES"
	// Without noRaceSleep, each program with the race detector sleeps for a second at its end.
	raceVariable, noRaceSleep = "GORACE", "atexit_sleep_ms=0"
	// together is the number of tests at a time: they wait more than they compute.
	together = "8"
)

// limitsVariable makes this test binary an operator with shorter times or smaller limits than the constants, which no
// option changes. It has limits in JSON.
const limitsVariable = "E2E_LIMITS"

type limits = cmdoperator.Limits

// limited is a variable for fixture.start.
func limited(l limits) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // durations and numbers
	}
	return limitsVariable + "=" + string(text)
}

// limitedOperator is the program, with no command but start and the one that guards its hooks.
func limitedOperator(wanted string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root, c := cli.Root("e2e", os.LookupEnv)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		host := cmdoperator.Process()
		if err := errors.Join(json.Unmarshal([]byte(wanted), &host.Limits), c.Complete()); err != nil {
			return err
		}
		return cmdoperator.Run(cmd.Context(), c, host)
	}
	var code cli.ExitError
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
}

// TestMain builds the program, with the race detector when the tests have it.
func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if file := os.Getenv(plainVariable); file != "" {
		if err := plainHelm(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if wanted := os.Getenv(limitsVariable); wanted != "" {
		return limitedOperator(wanted)
	}
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run() // names need no program
	}
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, "parallel") }) {
		_ = flag.Set("test.parallel", together) // the flag exists in every test binary
	}
	// It stays there: Go links it again only when a source has changed.
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", fmt.Sprint("e2e-", overhead), "addon-operator"))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Setenv(programVariable, path), os.Setenv(raceVariable, noRaceSleep), build(path))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(path string) error {
	const source = "../addon-operator"
	args := []string{"build", "-o", path}
	if overhead > 1 {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, source)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the program: %w\n%s", err, out)
	}
	const files = `{{with .Module}}{{if .Main}}{{.GoMod}} {{range $.GoFiles}}{{$.Dir}}/{{.}} {{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}} {{end}}{{end}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-f", files, source).Output()
	if err != nil {
		return fmt.Errorf("list the sources of the program: %w", err)
	}
	return os.Setenv(sourcesVariable, string(out))
}

// program is the path of the program. A binary whose tests ask for it looks at the sources, once: go test remembers
// what it has looked at, and runs it again when that has changed.
func program() string {
	lookAtSources()
	return os.Getenv(programVariable)
}

var lookAtSources = sync.OnceFunc(func() { //nolint:gochecknoglobals // once for all tests
	for file := range strings.FieldsSeq(os.Getenv(sourcesVariable)) {
		_, _ = os.Stat(file)
	}
})
