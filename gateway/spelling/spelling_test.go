package spelling

import (
	"strings"
	"testing"
)

func TestDistanceIsLevenshteins(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"check", "check", 0},
		{"chek", "check", 1},
		{"check", "cheque", 3},
		{"kitten", "sitting", 3},
		{"saturday", "sunday", 3},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestNearestGuessesOnlyWhatIsLikely(t *testing.T) {
	names := []string{"version", "help", "check", "bench"}
	for typed, want := range map[string]string{
		"chek": "check", "Check": "check", "bnech": "bench", "vers": "version", "hepl": "help",
		"": "", "x": "", "topic": "", strings.Repeat("check", 50): "",
	} {
		if got := Nearest(typed, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := Nearest("chek", nil); got != "" {
		t.Errorf("of no names, %q is the nearest", got)
	}
}
