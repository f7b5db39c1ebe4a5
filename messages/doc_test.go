package messages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table in doc.go has every message that crosses an actor, and what this package declares is a
// message, a part of one or the work of a task: what people are shown belongs in package view.
func TestTableOfMessages(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]bool{}
	for _, row := range rows(string(text)) {
		if table[row.message] {
			t.Errorf("the table has %s twice", row.message)
		}
		table[row.message] = true
	}
	ours, actors := parse(t, "."), slices.Concat(parse(t, "../actors"), parse(t, "../actors/*"))
	for _, name := range slices.Sorted(maps.Keys(answers(actors))) {
		if !table[name] {
			t.Errorf("an actor answers with %s; it is not in the table of doc.go", name)
		}
	}
	declared, explained := typesOf(ours), map[string]bool{}
	theirs := typesOf(actors)
	for name := range table {
		if declared[name] == nil && theirs[name] == nil {
			t.Errorf("the table has %s, which is no type", name)
		}
		explain(name, declared, explained)
	}
	for _, name := range works(ours) {
		explain(name, declared, explained)
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if ast.IsExported(name) && !explained[name] {
			t.Errorf("%s is neither a message nor a part of one: add it to the table of doc.go, or move it to package view", name)
		}
	}
}

// row is one of the table.
type row struct{ message, senders, receivers string }

func rows(text string) (all []row) {
	for _, found := range regexp.MustCompile(`(?m)^//\t(\w+) +(who makes tasks|[a-z-]+(?:, [a-z-]+)*) +([a-z].*)$`).FindAllStringSubmatch(text, -1) {
		if name := found[1]; name != "message" && name != "of" {
			all = append(all, row{name, strings.TrimSpace(found[2]), found[3]})
		}
	}
	return all
}

// folders are where the code of a sender is. What timers, the disk, kube and helm bring is sent by the receiver to itself.
func folders(who string) []string {
	switch who {
	case "operator", "cmd", "standby":
		return []string{"actors"}
	case "server":
		return []string{"server", "actors"}
	case "run", "discovery":
		return []string{"actors/work"}
	case "owner", "owners":
		return []string{"actors/modules", "actors/converge", "actors/shared"}
	case "module", "global", "global-hooks":
		return []string{"actors/modules"}
	case "config":
		return []string{"actors/configmap"}
	case "queue":
		return []string{"actors/queues"}
	case "schedule":
		return []string{"actors/schedules"}
	case "module-objects":
		return []string{"actors/moduleobjects"}
	case "scenario":
		return []string{"actors/scenario"}
	}
	return []string{"actors/" + who}
}

// The senders in the table are those in the code: who sends a message as a literal is named, and who is named has the
// message in its code.
func TestSendersOfMessages(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	sent, mentioned := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, pattern := range []string{"../actors", "../actors/*", "../server"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			sends(strings.TrimPrefix(dir, "../"), parse(t, dir), sent, mentioned)
		}
	}
	for _, r := range rows(string(text)) {
		if r.senders == "who makes tasks" {
			continue
		}
		var named []string
		for _, who := range strings.Split(r.senders, ", ") {
			if slices.Contains([]string{"timer", "itself", "kube", "helm", "disk"}, who) {
				who = r.receivers
			}
			of := folders(who)
			named = append(named, of...)
			if !slices.ContainsFunc(of, func(folder string) bool { return mentioned[r.message][folder] }) {
				t.Errorf("%s: the table says that it is sent by %s; nothing in %q has it", r.message, who, of)
			}
		}
		for folder := range sent[r.message] {
			if !slices.Contains(named, folder) && folder != "actors/scenario" { // it plays whoever a test needs
				t.Errorf("%s: %s sends it; the table has only %s", r.message, folder, r.senders)
			}
		}
	}
}

// The receivers in the table are those in the code: an actor that is named handles the message, and an actor that handles a
// message is named. Answers to runs, pages and commands reach no handler.
func TestReceiversOfMessages(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../actors/*")
	if err != nil {
		t.Fatal(err)
	}
	handled, table := map[string]map[string]bool{}, map[string]bool{}
	for _, dir := range append(dirs, "../actors") {
		folder := strings.TrimPrefix(dir, "../")
		handled[folder] = map[string]bool{}
		for _, file := range parse(t, dir) {
			handles(file, handled[folder])
		}
	}
	for _, r := range rows(string(text)) {
		for _, who := range strings.Split(r.receivers, ", ") {
			if slices.Contains([]string{"run", "discovery", "server", "cmd"}, who) {
				continue
			}
			of := folders(who)
			for _, folder := range of {
				table[folder+" "+r.message] = true
			}
			if !slices.ContainsFunc(of, func(folder string) bool { return handled[folder][r.message] }) {
				t.Errorf("%s: the table says that %s receives it; nothing in %q handles it", r.message, who, of)
			}
		}
	}
	for folder, all := range handled {
		for message := range all {
			if !table[folder+" "+message] {
				t.Errorf("%s: %s handles it; the table does not say so", message, folder)
			}
		}
	}
}

// handles notes the types of messages that a file distinguishes.
func handles(file *ast.File, all map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		choice, ok := n.(*ast.TypeSwitchStmt)
		if !ok {
			return true
		}
		isMessage := false
		ast.Inspect(choice.Assign, func(n ast.Node) bool {
			called, ok := n.(*ast.SelectorExpr)
			isMessage = isMessage || ok && called.Sel.Name == "Message"
			return true
		})
		for _, c := range choice.Body.List {
			if c, ok := c.(*ast.CaseClause); ok && isMessage {
				for _, message := range c.List {
					if name := types.ExprString(message); !strings.HasPrefix(name, "*") { // of the library
						all[name[strings.LastIndex(name, ".")+1:]] = true
					}
				}
			}
		}
		return true
	})
}

// sends notes which messages a folder has in its code, and which ones it sends as literals.
func sends(folder string, files []*ast.File, sent, mentioned map[string]map[string]bool) {
	note := func(in map[string]map[string]bool, name string) {
		if in[name] == nil {
			in[name] = map[string]bool{}
		}
		in[name][folder] = true
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				note(mentioned, n.Name)
			case *ast.CallExpr:
				name := types.ExprString(n.Fun)
				name, _, _ = strings.Cut(name, "[")
				if !slices.Contains([]string{"Send", "SendLater", "Request", "RequestFuture", "Respond", "Ask"}, name[strings.LastIndex(name, ".")+1:]) {
					break
				}
				for _, argument := range n.Args {
					if literal, ok := argument.(*ast.CompositeLit); ok && literal.Type != nil {
						message := types.ExprString(literal.Type)
						note(sent, message[strings.LastIndex(message, ".")+1:])
					}
				}
			}
			return true
		})
	}
}

func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// answers are the messages with which actors answer, where the type can be read.
func answers(files []*ast.File) map[string]bool {
	all := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if called, ok := call.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Respond" {
				if answer, ok := call.Args[0].(*ast.CompositeLit); ok {
					name := types.ExprString(answer.Type)
					all[name[strings.LastIndex(name, ".")+1:]] = true
				}
			}
			return true
		})
	}
	return all
}

func typesOf(files []*ast.File) map[string]*ast.TypeSpec {
	all := map[string]*ast.TypeSpec{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				all[spec.Name.Name] = spec
			}
			return true
		})
	}
	return all
}

// works are the types with a method Describe, which do what a task is for.
func works(files []*ast.File) []string {
	var names []string
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Describe" {
				names = append(names, types.ExprString(f.Recv.List[0].Type))
			}
		}
	}
	return names
}

// explain notes a type, and those that it consists of.
func explain(name string, declared map[string]*ast.TypeSpec, explained map[string]bool) {
	spec := declared[name]
	if spec == nil || explained[name] {
		return
	}
	explained[name] = true
	var parts func(n ast.Node) bool
	parts = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // its name may be that of another type
			ast.Inspect(n.Type, parts)
			return false
		case *ast.Ident:
			explain(n.Name, declared, explained)
		}
		return true
	}
	ast.Inspect(spec.Type, parts)
}
