package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
