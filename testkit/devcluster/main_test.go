package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	parent := os.Getppid()
	for situation, test := range map[string]struct {
		args string
		want options
	}{
		"only a directory":   {"--dir d", options{dir: "d", parentPID: parent}},
		"a port":             {"--dir d --port 6443", options{dir: "d", port: 6443, parentPID: parent}},
		"detached":           {"--dir d --detach", options{dir: "d"}},
		"detached wins":      {"--dir d --parent-pid 7 --detach", options{dir: "d"}},
		"another process":    {"--dir d --parent-pid 7", options{dir: "d", parentPID: 7}},
		"removed, with talk": {"--dir d --rm -v 4", options{dir: "d", parentPID: parent, remove: true, verbosity: 4}},
	} {
		t.Run(situation, func(t *testing.T) {
			got, err := parseOptions(strings.Fields(test.args), io.Discard)
			if err != nil || got != test.want {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func TestCommandLineTellsAllThatIsWrong(t *testing.T) {
	_, err := parseOptions([]string{"--port", "-1", "--parent-pid", "-1", "start"}, io.Discard)
	for _, want := range []string{"--dir is required", "--port -1", "--parent-pid -1", `"start"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("message %v lacks %q", err, want)
		}
	}
}

func TestHelpIsNotAnError(t *testing.T) {
	var out strings.Builder
	if _, err := parseOptions([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v", err)
	}
	if code := run([]string{"--help"}, &out, &out); code != exitStopped {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"-dir", "-port", "-detach", "-parent-pid", "-rm"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("the help lacks %s:\n%s", name, out.String())
		}
	}
}

// Programs are linked with the version of the modules that they are made of.
func TestVersionOfTheLinkerIsTheVersionOfTheModule(t *testing.T) {
	files, err := filepath.Glob("*.mod")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		output, err := exec.Command("sh", "ldflags", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, output)
		}
		_, version, _ := strings.Cut(string(output), "gitVersion=")
		version, _, _ = strings.Cut(version, " ")
		if !slices.Contains(strings.Split(readFile(t, file), "\n"), "\tk8s.io/kubernetes "+version) {
			t.Errorf("ldflags say %q, %s requires another k8s.io/kubernetes", version, file)
		}
		parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
		for _, want := range []string{"gitMajor=" + parts[0], "gitMinor=" + parts[1]} {
			if !slices.ContainsFunc(strings.Fields(string(output)), func(f string) bool { return strings.HasSuffix(f, "."+want) }) {
				t.Errorf("ldflags of %s lack %s", file, want)
			}
		}
		if want := "kube-" + parts[0] + "." + parts[1] + ".mod"; file != "go.mod" && file != want {
			t.Errorf("%s is of Kubernetes %s: its name is to be %s", file, version, want)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
