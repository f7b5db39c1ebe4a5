package jq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
)

func object() any {
	return map[string]any{
		"n": 3, "text": "abc", "list": []any{1, 2, map[string]any{"a": nil}}, "map": map[string]any{"x": 1, "y": map[string]any{"z": "q"}},
		"float": 1.5, "rows": []any{[]any{1, 2}, []any{3}}, "big": "123456789012345678901234567890",
	}
}

// all runs a program to its end.
func all(t *testing.T, expression string, library ...string) (texts []string) {
	t.Helper()
	p, err := Compile(expression, library...)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for result, err := range p.Results(ctx, object()) {
		text, wrong := Marshal(result)
		if err = errors.Join(err, wrong); err != nil {
			return append(texts, err.Error())
		}
		texts = append(texts, string(text))
	}
	return texts
}

// Guarded operators and functions mean what those of the library mean.
func TestGuardsChangeNothing(t *testing.T) {
	for _, expression := range []string{
		`.n * 2, 2 * .n, .text * 2, .text * 0, .text * -1, .map * {y: {w: 1}}, .float * 3`, `(1, 2) * (3, 4), (1, 2) + (3, 4)`, `.n + 1, .text + "x", .list + [3], .map + {c: 1}, null + 1`,
		`.list * 2`, `.text + 1`, `.new = 1`, `.list[1] = 5 | .list`, `.list[5] = 5 | .list`, `.list[-1] = 0 | .list`, `.list[-9] = 0`, `.a.b.c |= 7`, `.list[] |= type`, `.list[1:] = [9] | .list`,
		`.n = (1, 2) | .n`, `.n |= (., .) | .n`, `(.n, .text) += 1`, `.n += (1, 2) | .n`, `.n *= 2 | .n`, `.n -= 1 | .n`, `.n /= 2 | .n`, `.n %= 2 | .n`, `.none //= 4 | .none`, `.list |= map(select(. != 2))`,
		`.list[0] += .n | .list`, `reduce .list[] as $x (0; . + ($x | length))`, `reduce range(5) as $i ([]; .[$i] = $i * $i)`, `[foreach range(4) as $i (1; . * 2)]`, `def double: . + .; .n | double`,
		`def f(g): g + 1; f(.n), f(.n * 2)`, `def add: "mine"; .list | add`, `def f(add): add; f(1)`, `setpath(["a", "b"]; 1, 2) | .a`, `setpath("x"; 1)`, `pick(.map.y.z), pick(.list[1])`,
		`fromstream(tostream) == .`, `.rows | transpose`, `.rows | flatten, flatten(1), add, (.[0] | add), add(.[][])`, `.map | to_entries | map(.key) | join("-")`, `[.text, .n] | join("/", "+")`,
		`"\(.n) and \(.map) @ \(.text)"`, `@base64 "x\(.text)", (.rows[] | @csv, @json, @text, @sh)`, `.map | tojson, tostring | ., fromjson`, `[97, 98] | implode`, `{"k\(.n)": .n + 1, (.text + "x"): 2}`, `.list - [1], .n - 1, (.text - "x")`, `.list -= [1] | .list`, `(.n, .float) -= (1, 2) | [.n, .float]`, `.list | indices(1), index(2), rindex([2])`, `.text | indices("b"), index("c"), rindex("z"), contains("b"), inside("abcd")`, `contains({n: 3}), (.list | contains([1])), (.n | contains("x"))`,
		`.big | tonumber | . * ., . + 1`, `.list[.n - 2 + 1]`, `if .n + 1 > 3 then .n else .text end |= "y"`, `try (.text * {}) catch .`, `.list as [$a, $b] | $a + $b`, `. as {n: $n, ("te" + "xt"): $t} | $t * $n`,
		`path(.list[1 + 1])`, `[paths], [leaf_paths]`, `with_entries(.value |= type)`, `walk(if type == "number" then . + 1 else . end)`, `map_values(length?)`, `del(.list[0, 1]).list`, `limit(3; repeat(1))`,
		`.text | gsub("b"; "\(.)!")`, `[.list[] | numbers] | (add / length), -(.[0] + 1)`, `label $out | 1, break $out + 1`, `first(range(10) + 5)`, `"a,b" | split(",") + ["c"]`, `@json`, `$ENV + {}`, `halt`,
		`"x" * nan`, `.n * infinite`, `[.[]?] | length`,
		`.text | test("B"), test("B"; "i"), test(["b"]), test(["B", "i"]), match("b", "c").offset, match([".", "g"]).string`,
		`.text | [match("(?<x>b)(z)?"; null, "g")], [capture("(?<x>[a-b])"; "g")], capture("(?<x>b)")`, `.text | match("(")`, `.n | test("a")`, `.text | test(1)`, `.text | test("a"; 1)`, `.text | test("a"; "y")`,
		`"a\nb, c" | [splits(", *|\n")], split(", *|\n"; null), [scan("[a-z]")], [scan("([A-Z])"; "i")], [splits("B"; "i")]`, `"aäbä" | [match("ä"; "g").offset], [match(""; "g").offset]`, `.text | [match([])]`,
		`"abab" | sub("(?<x>a)"; .x + "1", .x + "2"), sub("a"; "-"; "g"), gsub("^a|b$"; ""), gsub("(?<x>B)"; "[\(.x)]"; "i"), [gsub("a", "b"; "x", "y")], gsub("z"; "y"), sub("a"; 1)`, `def test(x): "mine"; test("a")`,
	} {
		var want []string
		query, err := gojq.Parse(olderFunctions + expression)
		if err != nil {
			t.Fatal(err)
		}
		for results := query.RunWithContext(t.Context(), object()); ; {
			result, more := results.Next()
			if !more {
				break
			}
			if err, failed := result.(error); failed {
				if halt, ok := errors.AsType[*gojq.HaltError](err); !ok || halt.Value() != nil {
					want = append(want, err.Error())
				}
				break
			}
			text, err := gojq.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(text))
		}
		if got := all(t, expression); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %s\nwant %s", expression, got, want)
		}
	}
}

// No step makes much of little: the time limit counts between steps only. C37.
func TestStepsAreBounded(t *testing.T) {
	long := `("a" * 100000) | `
	library := t.TempDir()
	if err := os.WriteFile(filepath.Join(library, "bomb.jq"), []byte(`def twice: reduce range(40) as $i ("xxxxxxxx"; . + .);`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, expression := range []string{
		long + `[match("a"; "g")]`, long + `[match(["a", "g"])]`, long + `[scan("a")]`, long + `[scan("A"; "i")]`, long + `[splits("a")]`, long + `[splits("a"; null)]`, long + `split("a"; null)`,
		long + `sub("a"; "b"; "g")`, long + `gsub("a"; "b")`, long + `gsub("A"; "b"; "i")`, long + `[capture("(?<x>a)"; "g")]`,
		`[] | .[536870911] = 1`, `[] | setpath([536870911]; 1)`, `[] | .[300000000] |= 1`, `null | pick(.[536870911])`, `fromstream([[536870911], 1], [[536870911]])`, `.list[100000000].x += 1`,
		`[] | .[range(1000) | . * 500] = 1`, `"x" * 1000000000`, `.text *= 1e9`, `.n as $n | "x" * (10000000 * $n)`, `[range(1e9) | "x" * 1000000]`,
		`reduce range(40) as $i ("x"; . + .)`, `reduce range(40) as $i ("x"; . += .)`, `reduce range(40) as $i ([1]; . + .)`, `reduce range(40) as $i ("x"; "\(.)\(.)")`, `reduce range(40) as $i ("x"; @text "\(.)\(.)")`,
		`reduce range(60) as $i (1; [., .])`, `reduce range(60) as $i (1; [., .]) | tojson`, `reduce range(60) as $i (1; [., .]) | @json`, `reduce range(60) as $i (1; [., .]) | flatten`, `reduce range(60) as $i (1; [., .]) | "\(.)"`,
		`reduce range(200000) as $i (1; {a: .})`, `reduce range(200000) as $i (1; [.])`, `[range(100)] | map([range(1e4)]) | add | add(., ., .) | [., ., ., ., ., ., .] | add`,
		`("x" * 1000000) as $s | [range(100000)] | join($s)`, `("x" * 1000000) as $s | [range(100000) | $s] | add`, `[[range(500000)], (range(500000) | [])] | transpose`,
		`reduce range(60) as $i (.big | tonumber; . * .)`, `import "bomb" as bomb; bomb::twice`,
		`("a" * 1000000) | test("([ab]{900}z){1}")`, `"a" | test("(a{1000}){9}b{1000}")`, `"a" | test("a" * 5000)`, `("a," * 200000) | gsub(","; "")`,
		`("a" * 1000000) | indices("a" * 500000)`, `("a" * 1000000) | index(("a" * 500000) + "b")`, `[range(100000) | 0] | indices([range(50000) | 0])`, `[range(20000)] | . - map(-1 - .)`, `{a: [range(20000)]} | .a -= [range(-20000; 0)]`,
		`[range(10000) | [.]] as $l | $l | contains($l)`, `[range(10000)] | inside(map(.))`, `("7" * 1000000) | tonumber + 1`, `"[\("7" * 1000000)]" | fromjson[0] + 1`,
		`("a" * 30000) | [match("a|.*b"; "g")]`, `("a" * 20000) | gsub("a*b|a"; "")`, `("()" * 900) as $r | ("a" * 5000) | [match($r; "g")]`,
		`[range(1e5) | tostring * 600] | map(select("a" | test(.)))`,
	} {
		peak := heapWhile(func() {
			got := all(t, expression, library)
			if last := got[len(got)-1]; !regexp.MustCompile("MiB|regular expression|takes too long|10000 digits").MatchString(last) {
				t.Errorf("%s: %.80s", expression, last)
			}
		})
		if peak > 700<<20 {
			t.Errorf("%s: the heap grows by %d MiB", expression, peak>>20)
		}
	}
}

// heapWhile is how much is allocated meanwhile, whether it is kept or not.
func heapWhile(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Ordinary searches in long texts are no steps that are too long, and what the library compiles is forgotten.
func TestSearches(t *testing.T) {
	for expression, want := range map[string]string{
		`("line\n" * 1000) | gsub("\n"; " ") | length`:                            "5000",
		`("line " * 200000) | test("x$"), test("^line"), (sub("e"; "") | length)`: "[false true 999999]",
		`("line " * 200000) | gsub("^\\s+|\\s+$"; "") | length`:                   "999999",
		`("a.b\n" * 20000) | [split("\n")[] | gsub("\\."; "-")] | length`:         "20001",
	} {
		if got := all(t, expression); strings.Trim(fmt.Sprint(got), "[]") != strings.Trim(want, "[]") {
			t.Errorf("%s: %v", expression, got)
		}
	}
	p, err := Compile(`.text | test(.)`)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 150 {
		for _, err := range p.Results(t.Context(), map[string]any{"text": fmt.Sprint(i, "a{900}")}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(p.regexes) > maxKept+1 {
		t.Errorf("%d regular expressions are kept", len(p.regexes))
	}
}

func TestLongExpression(t *testing.T) {
	if _, err := Compile(strings.Repeat("(", 1<<20)); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("error %v", err)
	}
	if _, err := Compile(strings.Repeat("(", 30000) + "." + strings.Repeat(")", 30000)); err != nil {
		t.Log(err) // it may be refused, but ends
	}
}
