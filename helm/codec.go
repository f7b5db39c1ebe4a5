package helm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"helm.sh/helm/v3/pkg/release"
)

// maxRecord limits what a record may unpack to. A secret holds 1 MiB, so an
// honest record is far below; a crafted one must not fill the memory.
const maxRecord = 256 << 20

// encoder writes records. It keeps what it packs with: making that anew takes a
// megabyte and longer than all the rest of a small record.
type encoder struct{ packers sync.Pool }

// encode writes Helm's form of a record: base64 of gzip of JSON. The fastest
// level of gzip needs a tenth of the time Helm's own driver spends and makes
// records a fifth larger; templates and files, which would make up most of them,
// are not stored.
func (e *encoder) encode(rel *release.Release) ([]byte, error) {
	packer, ok := e.packers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if packer, err = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.packers.Put(packer)
	var buf bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &buf)
	packer.Reset(text)
	err := errors.Join(json.NewEncoder(packer).Encode(rel), packer.Close(), text.Close())
	return buf.Bytes(), err
}

// decodeRelease reads a record; older ones may not be compressed.
func decodeRelease(data []byte) (*release.Release, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		if raw, err = gunzip(raw); err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	rel := &release.Release{}
	if err := json.Unmarshal(raw, rel); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if rel.Info == nil || rel.Chart == nil {
		return nil, errors.New("info or chart is missing")
	}
	return rel, nil
}

func gunzip(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxRecord+1))
	if err == nil && len(raw) > maxRecord {
		err = fmt.Errorf("larger than %d bytes", maxRecord)
	}
	return raw, err
}
