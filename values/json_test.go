package values

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// D4
func TestParseJSONNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "-0": int64(0), "1000000": int64(1000000), "1e6": int64(1000000), "1.0": int64(1), "1.50": 1.5,
		"9223372036854775808": json.Number("9223372036854775808"), "-9223372036854775808": int64(math.MinInt64),
		"1e20": json.Number("100000000000000000000"), "1e200": 1e200, "9007199254740992.0": int64(1 << 53), "9007199254740994.0": int64(9007199254740994), "1e-7": 1e-7,
	} {
		got, err := ParseJSON([]byte(text))
		wantError(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

func TestParseJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":            "unexpected end",
		"{":           "unexpected end",
		"{} {}":       "line 1: more text",
		"{}\n\nx":     "line 3",
		"{\"a\":\n x": "line 2",
		"1e400":       "1e400 does not fit",
		"[1e400]":     "does not fit",
		`{"a":1e400}`: "does not fit",
	} {
		_, err := ParseJSON([]byte(text))
		wantError(t, err, want)
	}
}

func TestJSONIsCanonical(t *testing.T) {
	for _, tc := range []struct {
		tree any
		want string
	}{
		{map[string]any{"b": int64(1), "a": []any{nil, true, "x"}, "": map[string]any{}}, `{"":{},"a":[null,true,"x"],"b":1}`},
		{"<a&b> ä", `"<a&b> ä"`},
		{"\u2028 \"q\" \\ \n\r\t\x01\x7f \xff.", `"\u2028 \"q\" \\ \n\r\t\u0001\u007f \ufffd."`},
		{[]any{1.5, float64(3), 1e20, 1e-9, 123456789.25, json.Number("18446744073709551616"), int64(-7), 5}, `[1.5,3,100000000000000000000,1e-9,123456789.25,18446744073709551616,-7,5]`},
	} {
		if got := jsonText(t, tc.tree); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
	for _, bad := range []any{math.NaN(), math.Inf(1), func() {}} {
		if text, err := JSON(bad); err == nil {
			t.Errorf("%v: got %s", bad, text)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for seed := range uint64(1000) {
		tree := randomTree(rand.New(rand.NewPCG(seed, 4)), 4)
		text := jsonText(t, tree)
		again, err := ParseJSON([]byte(text))
		wantError(t, err)
		wantTree(t, text, again, tree)
		standard, err := json.Marshal(tree)
		wantError(t, err)
		same, err := ParseJSON(standard)
		wantError(t, err)
		wantTree(t, text, same, tree)
	}
}

// D27
func TestChecksum(t *testing.T) {
	equal := [][2]string{{"{a: 1, b: 2}", "{b: 2, a: 1}"}, {"{a: 1.0}", "{a: 1}"}, {"{a: yes}", "{a: true}"}, {"[]", "[]"}}
	for _, pair := range equal {
		if Checksum(yamlTree(t, pair[0])) != Checksum(yamlTree(t, pair[1])) {
			t.Errorf("%s and %s differ", pair[0], pair[1])
		}
	}
	different := []string{"{}", "[]", "", "{a: null}", "{a: 1}", "{a: '1'}", "{a: true}", "{a: 1.5}", "[1, 2]", "[2, 1]"}
	seen := map[string]string{}
	for _, text := range different {
		sum := Checksum(yamlTree(t, text))
		if other, twice := seen[sum]; twice {
			t.Errorf("%q and %q have the same checksum", text, other)
		}
		seen[sum] = text
		if len(sum) != 64 {
			t.Errorf("%q: checksum %q", text, sum)
		}
	}
	if Checksum(math.NaN()) == Checksum(nil) {
		t.Error("what is no tree looks like a tree")
	}
}
