package main

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// instruction is a line of a Dockerfile, continuations joined.
type instruction struct{ stage, name, args string }

func dockerfile(t *testing.T) (all []instruction) {
	t.Helper()
	data, err := os.ReadFile(repository + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stage, text := "", regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(data), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, args, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if _, as, ok := strings.Cut(args, " AS "); ok && name == "FROM" {
			stage = as
		}
		all = append(all, instruction{stage, name, strings.Join(strings.Fields(args), " ")})
	}
	return all
}

// No stage that can be the image leaves root as its user, process 1 is tini, and what
// hooks usually call is there.
func TestImage(t *testing.T) {
	user, installed, entry, stages, sets := map[string]string{}, "", "", "", ""
	for _, i := range dockerfile(t) {
		switch i.name {
		case "FROM":
			from, as, _ := strings.Cut(i.args, " AS ")
			user[as] = user[from] // "" for images of others: root
			stages += " " + as
		case "USER":
			user[i.stage] = i.args
		case "RUN":
			installed += i.args + " "
		case "ENTRYPOINT":
			entry = i.args
		case "ENV":
			if i.stage != "build" {
				sets += i.args + " "
			}
		case "ADD":
			t.Errorf("ADD %s: COPY does not fetch and unpack", i.args)
		}
	}
	if stages != " build base python operator" {
		t.Errorf("stages are%s; the last one is made without --target", stages)
	}
	for _, stage := range []string{"base", "python", "operator"} {
		if user[stage] != "65532:65532" {
			t.Errorf("stage %s ends as user %q", stage, user[stage])
		}
	}
	for _, program := range []string{"bash", "jq", "curl", "tini", "ca-certificates", "kubectl", "python3"} {
		if !strings.Contains(installed, program) {
			t.Errorf("no %s", program)
		}
	}
	// A variable of the image looks like one that somebody has set: it would switch
	// ADDON_OPERATOR_WORKING_DIR off (A2), and win over weaker names of its option (B4).
	program().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(f.Usage, -1) {
			if strings.Contains(sets, variable[1]+"=") {
				t.Errorf("the image sets %s", variable[1])
			}
		}
	})
	if entry != `["/sbin/tini", "--", "/bin/addon-operator"]` {
		t.Errorf("entry point %s", entry)
	}
}

// The commands that build the program are run as they stand, twice, in different
// directories: the program is static and has the same bytes each time. kubectl, which
// takes minutes, is only looked for.
func TestImageIsBuiltTheSameEachTime(t *testing.T) {
	if os.Getenv("IMAGE_TEST") == "" {
		t.Skip("links the operator twice; set IMAGE_TEST=1")
	}
	var build string
	var env []string
	for _, i := range dockerfile(t) {
		if i.stage == "build" && i.name == "RUN" && strings.Contains(i.args, "go build") {
			build = regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(i.args, "")
		}
		if i.stage == "build" && i.name == "ENV" {
			for _, m := range regexp.MustCompile(`([A-Z_]+)=("[^"]*"|\S+)`).FindAllStringSubmatch(i.args, -1) {
				env = append(env, m[1]+"="+strings.Trim(m[2], `"`))
			}
		}
	}
	flags, err := os.ReadFile(repository + ".ci/goflags")
	if err != nil {
		t.Fatal(err)
	}
	if want := "GOFLAGS=" + strings.TrimSpace(string(flags)); !slices.Contains(env, want) {
		t.Errorf("the build stage sets %q, want %s: with other flags everything is compiled again", env, want)
	}
	var commands []string
	for command := range strings.SplitSeq(build, " && ") {
		if strings.Contains(command, "k8s.io/kubernetes/cmd/kubectl") {
			command = `go list -C testkit/devcluster -f "{{.Name}}" k8s.io/kubernetes/cmd/kubectl`
		}
		commands = append(commands, command)
	}
	if len(commands) != 3 {
		t.Fatalf("the commands are %q", commands)
	}
	var programs [2][]byte
	for i := range programs {
		source, out := filepath.Join(t.TempDir(), "src"), t.TempDir()
		copySources(t, source)
		script := strings.ReplaceAll(strings.Join(commands, " && "), "/out/", out+"/")
		cmd := exec.Command("sh", "-euc", script)
		cmd.Dir, cmd.Env = source, append(append(os.Environ(), env...), "VERSION=v1.2.3")
		if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), "main") {
			t.Fatalf("%s: %v\n%s", script, err, output)
		}
		program := filepath.Join(out, "bin", "addon-operator")
		if says, err := exec.Command(program, "version").Output(); err != nil || string(says) != "addon-operator v1.2.3\n" {
			t.Errorf("it says %q, %v", says, err)
		}
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		programs[i] = data
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("two builds of one source differ")
	}
	program, err := elf.NewFile(bytes.NewReader(programs[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is not static")
		}
	}
}

// copySources copies what COPY . . would: all that .dockerignore leaves.
func copySources(t *testing.T, to string) {
	t.Helper()
	ignored := dockerignore(t)
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, repository)
		switch {
		case name != "" && ignored(name) && entry.IsDir():
			return fs.SkipDir
		case name == "" || ignored(name):
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dockerignore reports whether a path is left out of what COPY . . sees. It knows the two
// forms that the file uses: a name at the top, and **/ with a pattern for the last element.
func dockerignore(t *testing.T) func(name string) bool {
	t.Helper()
	data, err := os.ReadFile(repository + ".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			patterns = append(patterns, line)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			anywhere, ok := strings.CutPrefix(pattern, "**/")
			if !ok {
				return name == pattern
			}
			matched, err := filepath.Match(anywhere, filepath.Base(name))
			return matched && err == nil
		})
	}
}

// Nothing that the program is made of is left out of the image's sources, and what is not
// part of it does not travel to the builder: neither history nor programs nor tests.
func TestSourcesOfTheImage(t *testing.T) {
	ignored := dockerignore(t)
	for _, name := range []string{"go.mod", "go.sum", "LICENSE", "cmd", "actors", "testkit", "testkit/devcluster", "testkit/devcluster/ldflags", "server/page.html", "cmd/local/skeleton"} {
		if _, err := os.Stat(repository + name); err != nil || ignored(name) {
			t.Errorf("%s is left out, or is not there: %v", name, err)
		}
	}
	for _, name := range []string{".git", ".run", "bin", "docs", "server/server_test.go", "server/testdata"} {
		if !ignored(name) {
			t.Errorf("%s goes into the image's sources", name)
		}
	}
	output, err := exec.Command("go", "list", "-C", repository, "-deps", "-f", `{{if not .Standard}}{{$dir := .Dir}}{{if eq .Module.Path "addon-operator"}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}{{range .EmbedFiles}}{{$dir}}/{{.}} {{end}}{{end}}{{end}}`, "./cmd/addon-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(output))
	if len(files) < 100 {
		t.Errorf("the program has only %d files", len(files))
	}
	for _, file := range files {
		for name := strings.TrimPrefix(file, root+"/"); name != "."; name = filepath.Dir(name) {
			if ignored(name) {
				t.Errorf("%s is part of the program and is left out", file)
			}
		}
	}
}
