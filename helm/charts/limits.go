package charts

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"

	"addon-operator/helm/manifest"
)

// maxChart bounds the files of a chart, unpacked, in bytes. Helm keeps all of them in memory, and a release record has 1 MiB.
const maxChart = 64 << 20

// subchartArchive is where Helm looks for packed subcharts.
var subchartArchive = regexp.MustCompile(`(?:^|/)charts/[^/_.][^/]*\.tgz$`)

// checkSize refuses a chart that is too large, or that stands for too much when its YAML is read, before Helm loads it.
func checkSize(m Module) error {
	root := Root(m.Dir)
	rules, err := ignoreRules(root)
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(root, "Chart.yaml"))
	synthesised := err != nil && root == m.Dir
	var w weight
	return walk(root, "", func(name string, info fs.FileInfo) error {
		switch {
		case rules.Ignore(name, info) || synthesised && isForeign(name):
			return skip(info)
		case info.IsDir():
			return nil
		case !info.Mode().IsRegular():
			return irregular(name)
		case !synthesised && info.Size() > loader.MaxDecompressedFileSize:
			return fmt.Errorf("%s has more than %d MiB, Helm's limit for a file of a chart; list it in .helmignore when no template reads it", name, loader.MaxDecompressedFileSize>>20)
		}
		return w.add(name, info.Size(), func() ([]byte, error) { return os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) })
	})
}

// weight is how large the files of a chart are together.
type weight int64

// add counts a file, and looks into those that Helm takes apart.
func (w *weight) add(name string, size int64, read func() ([]byte, error)) error {
	if *w += weight(size); *w > maxChart {
		return fmt.Errorf("its files have more than %d MiB; list in .helmignore what no template reads", maxChart>>20)
	}
	parsed := slices.Contains([]string{"Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock"}, path.Base(name))
	packed := subchartArchive.MatchString(name)
	if !parsed && !packed || strings.HasPrefix(name, "templates/") {
		return nil
	}
	data, err := read()
	if err != nil {
		return err
	}
	if parsed {
		if err := manifest.Check(string(data)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range files {
		if err := w.add(f.Name, int64(len(f.Data)), func() ([]byte, error) { return f.Data, nil }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// irregular is the error for a named pipe, which would be waited for, a device, which may never end, and the like.
func irregular(name string) error {
	return fmt.Errorf("%s is no regular file, nor a link to one", name)
}
