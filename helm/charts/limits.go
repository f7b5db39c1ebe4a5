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

// maxChart bounds the files of a chart, unpacked, in bytes. Helm keeps all of them in memory. It is
// far above what charts have: the rendered objects must fit into a release record of 1 MiB.
const maxChart = 64 << 20

// subchartArchive is where Helm looks for packed subcharts.
var subchartArchive = regexp.MustCompile(`(?:^|/)charts/[^/_.][^/]*\.tgz$`)

// checkSize refuses a chart that is too large, or whose YAML would be with all aliases written out,
// before Helm loads it. It leaves out the same files as the loader, so that an author can exclude
// large ones by .helmignore.
func checkSize(m Module) error {
	root := Root(m.Dir)
	rules, err := ignoreRules(root, m.Where())
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
			return fmt.Errorf("%s has more than %d MiB, Helm's limit for a file of a chart; list it in .helmignore if no template reads it", name, loader.MaxDecompressedFileSize>>20)
		}
		return w.add(name, info.Size(), func() ([]byte, error) { return os.ReadFile(filepath.Join(root, filepath.FromSlash(name))) })
	})
}

// weight is the size of the files of a chart together, in bytes, subcharts in archives included.
type weight int64

// add counts a file, and reads those that Helm parses while it loads a chart, or unpacks: their
// content may stand for much more than their size. An archive counts packed and unpacked. read is
// called for such files only.
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

// irregular is the error for a file that is no regular one: the read of a named pipe would wait for
// a writer, and that of a device may never end.
func irregular(name string) error {
	return fmt.Errorf("%s is neither a regular file nor a link to one; restore it, or remove it", name)
}
