package kafka

import (
	"fmt"
	"os"
	"regexp"
	"testing"
)

var documentedAPI = regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| (\d+)–(\d+) \|`)

// docs/kafka.md names exactly the requests and versions that are served.
func TestDocumentNamesWhatIsServed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range documentedAPI.FindAllStringSubmatch(string(text), -1) {
		documented[fmt.Sprintf("%s: %s-%s", m[1], m[3], m[4])] = true
	}
	for _, a := range apis() {
		line := fmt.Sprintf("%d: %d-%d", a.key, a.minVersion, a.maxVersion)
		if !documented[line] {
			t.Errorf("%s is served and not documented so", line)
		}
		delete(documented, line)
	}
	for line := range documented {
		t.Errorf("%s is documented and not served", line)
	}
}
