package gateway

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"polylog/gateway/config"
	"polylog/gateway/metrics"
)

var update = flag.Bool("update", false, "write the tables of docs/operating.md anew")

const operating = "../docs/operating.md"

// cell makes text fit for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func keyTable() string {
	var b strings.Builder
	b.WriteString("| key | default | allowed | what it does |\n| --- | --- | --- | --- |\n")
	for _, r := range config.Table() {
		usual := "`" + r.Default + "`"
		if r.Default == "" {
			usual = "`\"\"`"
		}
		if r.Key == "users" {
			usual = "guest"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Key, usual, cell(r.Allowed), cell(r.Help))
	}
	return b.String()
}

func figureTable() string {
	var b strings.Builder
	b.WriteString("| figure | kind | what it is |\n| --- | --- | --- |\n")
	for _, d := range metrics.Table() {
		name := d.Name
		if len(d.Labels) > 0 {
			name += "{" + strings.Join(d.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, d.Kind, cell(d.Help))
	}
	return b.String()
}

// replaced returns the text with the table between the marks, or fails.
func replaced(t *testing.T, text, mark, table string) string {
	t.Helper()
	begin := strings.Index(text, "<!-- "+mark)
	if begin < 0 {
		t.Fatalf("%s has no mark %q", operating, mark)
	}
	begin += strings.Index(text[begin:], "\n") + 1
	end := strings.Index(text[begin:], "<!-- end -->")
	if end < 0 {
		t.Fatalf("%s: the table of %q has no end", operating, mark)
	}
	return text[:begin] + table + text[begin+end:]
}

// The document lists every key and every figure there is, and no others.
func TestOperatingDocumentIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(operating)
	if err != nil {
		t.Fatal(err)
	}
	want := replaced(t, string(text), "table of keys", keyTable())
	want = replaced(t, want, "table of figures", figureTable())
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date; run: go test ./gateway -run Operating -update", operating)
	}
	if err := os.WriteFile(operating, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
