package bring

import ("testing";"os";"addon-operator/helm/fetch";"addon-operator/values")

func TestDebug(t *testing.T) {
	for _, d := range []string{"prometheus-mysql-exporter","prometheus-sql-exporter"} {
		c, err := fetch.Read("/tmp/vendorcharts/c/"+d)
		if err != nil { t.Fatal(err) }
		tree, _ := ofSchema(c.Schema)
		text, _ := values.YAML(tree)
		schemas, err := values.CompileSchemas(values.SchemaFile{Path: schemaFile, Data: []byte(shortTypes(string(text)))}, values.SchemaFile{})
		if err != nil { t.Log(d, err); continue }
		s, _ := sectionOf("web", schemas, c.Values)
		t.Log(d, s.ValidateConfig())
	}
	tree, _ := ofSchema([]byte(os.Getenv("SCHEMA")))
	_ = tree
}
