package values

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ParseJSON reads exactly one JSON value into a tree. Integers stay integers, whatever their size (D4). It refuses
// numbers beyond the range of a float64, and what exceeds the limits (D39). Of duplicate keys the last one wins.
func ParseJSON(data []byte) (any, error) {
	if err := CheckSize(int64(len(data))); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var raw any
	if err := decoder.Decode(&raw); err != nil {
		return nil, jsonError(data, decoder, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: more text after the end of the JSON value", lineAt(data, decoder.InputOffset()))
	}
	tree, err := rebuilt(raw, numbers)
	return tree, cmp.Or(err, bounded(tree))
}

// jsonError adds the line to an error of the decoder. Syntax errors have an offset of their own;
// the decoder's is that of the last token that it read.
func jsonError(data []byte, decoder *json.Decoder, err error) error {
	offset := decoder.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("unexpected end of the JSON text")
	}
	return fmt.Errorf("line %d: %w", lineAt(data, offset), err)
}

// lineAt counts lines from 1, as editors do.
func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}

// numbers converts the json.Numbers of a value that was decoded into the numbers of a tree.
func numbers(raw any) (any, error) {
	if n, ok := raw.(json.Number); ok {
		return number(string(n))
	}
	return raw, nil
}

// number converts the text of a JSON number. An integer beyond int64 stays text, because a float64
// would lose digits; so does one with an exponent, as long as its digits are within the limit.
func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > maxDigits {
			return nil, errTooManyDigits
		}
		return json.Number(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s does not fit into 64 bits", brief(text))
	}
	return float(f), nil
}

// float returns the tree of a float64: an integer if it has no fraction and at most a hundred digits.
func float(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) >= 1e100 {
		return f
	}
	integer, _ := number(strconv.FormatFloat(f, 'f', -1, 64))
	return integer
}

// Encode is json.Marshal without the escaping of <, > and &, which only makes sense inside HTML.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// JSON writes a tree in canonical form: keys sorted, no white space, no HTML escaping, integers
// without exponent. Equal trees give equal bytes.
func JSON(tree any) ([]byte, error) {
	text, err := Encode(tree)
	return bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`)), err // which YAML does not read
}

// Checksum returns the hexadecimal SHA-256 of the canonical JSON of a tree. Two trees have the same
// checksum exactly when they hold the same values; "changed" in the rules of the lifecycle means
// that the checksum changed (D27).
func Checksum(tree any) string {
	text, err := JSON(tree)
	if err != nil { // not a tree; it still needs a checksum that differs from those of trees
		text = []byte("invalid: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
