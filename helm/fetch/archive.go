package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/downloader"
)

// What is taken from others is bounded before anything is made of it.
const (
	// maxArchive bounds an archive, packed, in bytes. The operator accepts 64 MiB of files in a
	// chart (package charts), so a larger archive could not be used.
	maxArchive = 64 << 20
	// maxFiles bounds the files of a chart: an empty one still takes a header and an inode.
	maxFiles = 10_000
	// maxUnpacked bounds the unpacked size of an archive, headers included, in bytes: Helm's own limit.
	maxUnpacked = 100 << 20
)

// readArchive reads a file of at most maxArchive. Named pipes, whose read would wait for a writer,
// and devices, which may never end, are refused.
func readArchive(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is neither a regular file nor a link to one")
	case info.Size() > maxArchive:
		return nil, fmt.Errorf("the archive has more than %d MiB", maxArchive>>20)
	}
	return os.ReadFile(path)
}

// digest is the checksum of an archive as registries write it.
func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// verify checks the signature of an archive in a file, which is next to it (.prov). Downloads are
// verified by Helm's downloader instead.
func verify(path, keyring string) error {
	if _, err := downloader.VerifyChart(path, keyring); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

// unpack writes the files of an archive to a directory, without the directory that they are in: the
// name of the chart. What it has written before an error stays; the caller removes it.
func unpack(data []byte, dir string) error {
	if err := checkArchive(data); err != nil {
		return err
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return unpackError(err)
	}
	for _, f := range files {
		if err := writeFile(dir, f.Name, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// unpackError replaces the errors of gzip for other files: a page of HTML is a usual one.
func unpackError(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.EOF) {
		return errors.New("not a chart archive: not compressed with gzip")
	}
	return fmt.Errorf("unpack: %w", err)
}

// checkArchive refuses what a chart has no use for and Helm would take for something else: links
// would become empty files. It reads the archive as a stream, before Helm, which keeps all files in
// memory. Helm checks paths and sizes.
func checkArchive(data []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return unpackError(err)
	}
	bounded := &io.LimitedReader{R: unzipped, N: maxUnpacked + 1} // nothing left: it is larger
	archive := tar.NewReader(bounded)
	seen := map[string]bool{}
	for {
		header, err := archive.Next()
		switch {
		case bounded.N <= 0:
			return fmt.Errorf("has more than %d MiB when unpacked", maxUnpacked>>20)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unpackError(err)
		}
		switch header.Typeflag {
		case tar.TypeReg, tar.TypeXGlobalHeader:
		case tar.TypeDir:
			continue
		case tar.TypeSymlink, tar.TypeLink:
			return fmt.Errorf("%s is a link; an archive of a chart contains only files", header.Name)
		default:
			return fmt.Errorf("%s is not a file; an archive of a chart contains only files", header.Name)
		}
		if seen[header.Name] && header.Typeflag == tar.TypeReg {
			return fmt.Errorf("contains %s twice", header.Name)
		}
		if seen[header.Name] = true; len(seen) > maxFiles {
			return fmt.Errorf("has more than %d files", maxFiles)
		}
	}
}

// copyDir copies the files of a chart without those that .helmignore names: what 'helm package'
// would pack. A directory that is no chart is an error before anything is written.
func copyDir(from, to string) error {
	if _, err := os.Stat(filepath.Join(from, "Chart.yaml")); err != nil {
		return fmt.Errorf("%s is not a chart: it has no Chart.yaml", from)
	}
	loaded, err := load(from)
	if err != nil {
		return fmt.Errorf("chart %s: %w", from, err)
	}
	root, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	if len(loaded.Raw) > maxFiles {
		return fmt.Errorf("chart %s: has more than %d files", from, maxFiles)
	}
	for _, f := range loaded.Raw {
		if err := copyFile(root, to, f); err != nil {
			return fmt.Errorf("chart %s: %w", from, err)
		}
	}
	return nil
}

// copyFile writes a file that was read below root. A link is followed, but not out of the chart: a
// chart from elsewhere must not copy files of the person into the module.
func copyFile(root, to string, f *chart.File) error {
	target, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(f.Name)))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(target, root+string(filepath.Separator)) {
		return fmt.Errorf("%s is a link to a place outside of the chart", f.Name)
	}
	return writeFile(to, f.Name, f.Data)
}

// writeFile creates a file of a chart below dir. Its name has slashes, and is refused if it is
// absolute or leads upwards. A file that exists is an error.
func writeFile(dir, name string, data []byte) error {
	if !fs.ValidPath(name) {
		return fmt.Errorf("%q is not a valid file name", name)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
