package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

const program = "addon-operator"

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func parsePlatforms(text string) (all []platform, err error) {
	for _, word := range strings.Fields(text) {
		system, arch, ok := strings.Cut(word, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("platform %q: write it as linux/amd64", word)
		}
		if p := (platform{system, arch}); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no platform: write them as linux/amd64, separated by spaces")
	}
	return all, nil
}

// binary is a compiled program.
type binary struct {
	platform
	path string
	info *debug.BuildInfo
}

// name is what all files of this binary begin with.
func (r release) name(p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", program, r.version, p.os, p.arch)
}

// buildEnvironment is all that a build may know of the machine: where Go keeps its caches. What changes the code that
// the compiler makes is set.
func (r release) buildEnvironment(p platform) ([]string, error) {
	flags, err := os.ReadFile(filepath.Join(r.root, ".ci/goflags"))
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(string(flags)), "GOOS="+p.os, "GOARCH="+p.arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOWORK=off", "GOFIPS140=off"), nil
}

func (r release) compile(ctx context.Context, p platform, path string) (binary, error) {
	env, err := r.buildEnvironment(p)
	if err != nil {
		return binary{}, err
	}
	link := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s -X main.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	if _, err := output(ctx, r.root, env, "go", "build", "-ldflags", link, "-o", path, "./cmd/"+program); err != nil {
		return binary{}, err
	}
	info, err := buildinfo.ReadFile(path)
	return binary{p, path, info}, err
}

// writeCompletions asks the program of this machine.
func (r release) writeCompletions(ctx context.Context, programs []binary) error {
	here := platform{runtime.GOOS, runtime.GOARCH}
	i := slices.IndexFunc(programs, func(b binary) bool { return b.platform == here })
	var path string
	if i >= 0 {
		path = programs[i].path
	} else {
		dir, err := os.MkdirTemp("", "release-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, program)
		if _, err := r.compile(ctx, here, path); err != nil {
			return err
		}
	}
	var files []file
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := exec.CommandContext(ctx, path, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		files = append(files, file{name: program + "." + shell, data: text})
	}
	return r.writeArchive(fmt.Sprintf("%s_%s_completions.tar.gz", program, r.version), files)
}

// output runs a command and returns what it prints, without the last line end; the error has what it complains of.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, &complaint
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, &complaint)
	}
	return strings.TrimRight(string(text), "\n"), nil
}
