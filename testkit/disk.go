package testkit

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // the usual chart
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"addon-operator/helm"

	"addon-operator/actors/scenario"
)

//go:embed testdata/usual.yaml
var usualChart []byte

// disk is the directory that a script is played in, and what the archive has for it.
type disk struct {
	dir   string
	files map[string][]byte // all files of the archive, by name
	// notice tells the operator that was started last.
	notice func()
}

// reset makes the directory what the archive says, before a play.
func (d *disk) reset() error {
	d.notice = func() {}
	for _, root := range []string{"modules", "global-hooks"} {
		if err := errors.Join(d.remove(root), os.MkdirAll(d.path(root), 0o755), d.restore(root)); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// file is a file of the archive that a step names; it need not be one that is written to disk.
func (d *disk) file(name string) ([]byte, error) {
	data, ok := d.files[name]
	if !ok {
		return nil, fmt.Errorf("the archive has no file %s", name)
	}
	return data, nil
}

// remove deletes a file or directory.
func (d *disk) remove(path string) error { return os.RemoveAll(d.path(path)) }

// restore writes the files of the archive at and below a path. They are older than the virtual
// time, in which the year 2000 has just begun: the operator reads files again and again that have
// just changed, or that are of the future.
func (d *disk) restore(path string) error {
	for name, data := range d.files {
		if name != path && !strings.HasPrefix(name, path+"/") {
			continue
		}
		old := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := errors.Join(d.write(name, data), os.Chtimes(d.path(name), old, old)); err != nil {
			return err
		}
	}
	return nil
}

// withoutBit begins a hook or an enabled script that is not executable by mistake.
const withoutBit = "not executable"

// write puts a file there; hooks and enabled scripts become executable. A Chart.yaml is completed by what Helm
// requires, and gets templates if the archive has none.
func (d *disk) write(name string, data []byte) error {
	mode := os.FileMode(0o644)
	openapi := strings.Contains(name, "/openapi/")
	if !openapi && (strings.Contains(name, "hooks/") || filepath.Base(name) == "enabled") && !bytes.HasPrefix(data, []byte(withoutBit)) {
		mode = 0o755
	}
	if dir, isChart := strings.CutSuffix(name, "Chart.yaml"); isChart {
		if !bytes.Contains(data, []byte("version:")) {
			data = append(slices.Clip(data), "apiVersion: v2\nversion: 0.1.0\n"...)
		}
		own := func(file string) bool { return strings.HasPrefix(file, dir+"templates/") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(d.files)), own) {
			if err := d.put(dir+"templates/usual.yaml", usualChart, mode); err != nil {
				return err
			}
		}
	}
	return d.put(name, data, mode)
}

func (d *disk) put(name string, data []byte, mode os.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(d.path(name)), 0o755), os.WriteFile(d.path(name), data, mode))
}

// subscribe is the Disk of actors.World: notify is called when a script says that the watch of the disk notices
// something.
func (d *disk) subscribe(ctx context.Context, notify func()) {
	d.notice = func() {
		if ctx.Err() == nil {
			notify()
		}
	}
}

// diskSteps are what people change on disk, and releases that were there before the operator.
func diskSteps() map[string]step {
	return map[string]step{
		"notice-disk": func(p *player, _ string) error { p.disk.notice(); return nil },
		"remove":      func(p *player, path string) error { return p.disk.remove(path) },
		"restore":     func(p *player, path string) error { return p.disk.restore(path) },
		"rename": func(p *player, rest string) error {
			from, to, _ := strings.Cut(rest, " ")
			return os.Rename(p.disk.path(from), p.disk.path(to))
		},
		"write": func(p *player, rest string) error {
			path, name, _ := strings.Cut(rest, " ")
			data, err := p.disk.file(cmp.Or(name, path))
			if err == nil {
				err = p.disk.write(path, data)
			}
			return err
		},
		"release":         stepRelease(false),
		"foreign-release": stepRelease(true),
	}
}

// stepRelease installs the chart of a release, as an earlier operator or, without its labels, a person.
func stepRelease(byPerson bool) step {
	return func(p *player, name string) error {
		d := &disk{dir: p.t.TempDir()}
		if err := d.write("Chart.yaml", []byte("name: "+name+"\n")); err != nil {
			return err
		}
		client, err := helm.New(helm.Options{Config: p.Cluster.Client.RESTConfig(), Namespace: scenario.Namespace, Labels: helm.UsualLabels()})
		if err != nil {
			return err
		}
		if _, err := client.Apply(p.t.Context(), helm.Module{Name: name, Key: name, Dir: d.dir, Values: map[string]any{}}); err != nil || !byPerson {
			return err
		}
		record := scenario.ParseReference("Secret " + scenario.Namespace + "/sh.helm.release.v1." + name + ".v1")
		labels := map[string]any{"owner": "helm", "name": name, "status": "deployed", "version": "1"}
		return p.Cluster.Set(record, labels, "metadata", "labels")
	}
}
