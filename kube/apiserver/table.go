package apiserver

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// column is one that a definition asks kubectl to print. Built-in kinds have none here: without a
// table, kubectl prints their names and ages.
type column struct {
	metav1.TableColumnDefinition

	path string // a template of JSONPath, with braces
}

// columnsOf are those of a version of a definition.
func columnsOf(version map[string]any) []column {
	entries, _, _ := unstructured.NestedSlice(version, "additionalPrinterColumns")
	columns := make([]column, 0, len(entries))
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		text := func(key string) string { s, _ := fields[key].(string); return s }
		priority, _ := fields["priority"].(int64)
		columns = append(columns, column{
			metav1.TableColumnDefinition{Name: text("name"), Type: text("type"), Description: text("description"), Priority: int32(priority)}, "{" + text("jsonPath") + "}",
		})
	}
	return columns
}

// cell is what the column shows of an object; nil for nothing, also for a path that is wrong. A
// date is shown as an age.
func (c column) cell(u *unstructured.Unstructured) any {
	var out bytes.Buffer
	path := jsonpath.New(c.Name).AllowMissingKeys(true) // it is not safe for concurrent use
	if path.Parse(c.path) != nil || path.Execute(&out, u.Object) != nil || out.Len() == 0 {
		return nil
	}
	if c.Type != "date" {
		return out.String()
	}
	at, err := time.Parse(time.RFC3339, out.String())
	if err != nil {
		return "<invalid>"
	}
	return duration.HumanDuration(time.Since(at))
}

// rows shows objects as rows of a table, which kubectl asks for before it prints. The table has the
// columns of all priorities: kubectl leaves out those with a priority above 0, unless it prints
// wide.
func (f *format) rows(objects []unstructured.Unstructured, version string) map[string]any {
	definitions := []any{metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name"}}
	for _, c := range f.kind.columns {
		definitions = append(definitions, c.TableColumnDefinition)
	}
	rows := make([]any, 0, len(objects))
	for i := range objects {
		cells := []any{objects[i].GetName()}
		for _, c := range f.kind.columns {
			cells = append(cells, c.cell(&objects[i]))
		}
		metadata := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": objects[i].Object["metadata"]}
		rows = append(rows, map[string]any{"cells": cells, "object": metadata})
	}
	return map[string]any{
		"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": map[string]any{"resourceVersion": version},
		"columnDefinitions": definitions, "rows": rows,
	}
}
