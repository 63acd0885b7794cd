package topic

import (
	"errors"
	"strings"
	"testing"

	"polylog/logstore/seed"
)

// TestNamesForKafka holds the escape rule to names written out.
func TestNamesForKafka(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kafka string }{
		{"orders", "orders"},
		{"Orders.new_1-2", "Orders.new_1-2"},
		{strings.Repeat("a", 249), strings.Repeat("a", 249)},
		{"amqp-orders", "amqp-orders"},
		{"amq.gen-x_-y", "amq.gen-x_-y"},
		{"a b", "amqp--a-20b"},
		{"a-b c", "amqp--a-2db-20c"},
		{"orders/new", "amqp--orders-2fnew"},
		{"größe", "amqp--gr-c3-b6-c3-9fe"},
		{".", "amqp--."},
		{"..", "amqp--.."},
		{"amqp--a", "amqp--amqp-2d-2da"},
		{"amqp--a-20b", "amqp--amqp-2d-2da-2d20b"},
		{"\x00\xff", "amqp---00-ff"},
		{strings.Repeat("a", 242) + "!", "amqp--sha256--5a420c6708d30e9316215a4e376c0e2fd7601919cf3bb0b6c49404868a0dc0cc"},
		{strings.Repeat("a", 240) + "!", "amqp--" + strings.Repeat("a", 240) + "-21"},
	} {
		got := KafkaName(c.name)
		if IsDigest(c.kafka) {
			if got != c.kafka {
				t.Errorf("KafkaName(%q) = %q, want %q", c.name, got, c.kafka)
			}
			if _, err := FromKafkaName(got); err == nil {
				t.Errorf("FromKafkaName(%q): a digest says no name", got)
			}
			continue
		}
		if got != c.kafka {
			t.Errorf("KafkaName(%q) = %q, want %q", c.name, got, c.kafka)
		}
		if back, err := FromKafkaName(c.kafka); err != nil || back != c.name {
			t.Errorf("FromKafkaName(%q) = %q, %v, want %q", c.kafka, back, err, c.name)
		}
		if err := CheckKafkaName(c.kafka); err != nil {
			t.Errorf("CheckKafkaName(%q): %v", c.kafka, err)
		}
	}
}

// TestNoKafkaNameStandsForTwo holds the escape to one way of writing.
func TestNoKafkaNameStandsForTwo(t *testing.T) {
	t.Parallel()
	for _, kafka := range []string{
		"", ".", "..", "a b", "a/b", "ä", strings.Repeat("a", 250), // not Kafka's
		"amqp--", "amqp--orders", "amqp--a-2Fb", "amqp--a-2", "amqp--a-", "amqp--a-zz", "amqp---", "amqp--a--b", // not ours
		"amqp--a-61-20", "amqp--amqp--a", "amqp--sha256--12", "amqp--a-20b-2Fc",
	} {
		name, err := FromKafkaName(kafka)
		var bad *NameError
		if !errors.As(err, &bad) || bad.Name != kafka || bad.Reason == "" {
			t.Errorf("FromKafkaName(%q) = %q, %v, want a *NameError", kafka, name, err)
		}
		if err := CheckKafkaName(kafka); !errors.As(err, &bad) {
			t.Errorf("CheckKafkaName(%q) = %v, want a *NameError", kafka, err)
		}
	}
}

// TestNamesComeBack writes and reads random names.
func TestNamesComeBack(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	const odd = "abcXYZ019._--- /#*\x00\xffö"
	seen := map[string]string{}
	for range 20000 {
		b := make([]byte, 1+rng.IntN(AMQPNameMax))
		if rng.IntN(2) == 0 {
			b = b[:min(len(b), 8)]
		}
		for i := range b {
			b[i] = odd[rng.IntN(len(odd))]
		}
		name := string(b)
		if rng.IntN(4) == 0 {
			name = (EscapePrefix + name)[:min(AMQPNameMax, len(EscapePrefix)+len(name))]
		}
		kafka := KafkaName(name)
		if other, has := seen[kafka]; has && other != name {
			t.Fatalf("%q and %q are both %q", name, other, kafka)
		}
		seen[kafka] = name
		if err := CheckKafkaName(kafka); err != nil {
			t.Fatalf("KafkaName(%q) = %q: %v", name, kafka, err)
		}
		if IsDigest(kafka) {
			continue
		}
		if back, err := FromKafkaName(kafka); err != nil || back != name {
			t.Fatalf("FromKafkaName(%q) = %q, %v, want %q", kafka, back, err, name)
		}
	}
}

// TestNamesOfAMQP checks what an AMQP client may call a queue.
func TestNamesOfAMQP(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "amq", "amqp.x", "a b", "\xff\x00", strings.Repeat("q", 255)} {
		if err := CheckAMQPName(name); err != nil {
			t.Errorf("CheckAMQPName(%q): %v", name, err)
		}
	}
	for _, name := range []string{"", "amq.", "amq.direct", "amq.gen-1", strings.Repeat("q", 256)} {
		var bad *NameError
		if err := CheckAMQPName(name); !errors.As(err, &bad) {
			t.Errorf("CheckAMQPName(%q) = %v, want a *NameError", name, err)
		}
	}
}

// TestCollidingNames has the names that Kafka's metrics cannot tell apart.
func TestCollidingNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a.b", "a_b", true}, {"a_b.c", "a.b_c", true}, {"a.b", "a.b", false}, {"a.b", "a-b", false}, {"a.b", "a_bc", false}, {"", "", false},
	} {
		if got := Collide(c.a, c.b); got != c.want {
			t.Errorf("Collide(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// FuzzFromKafkaName looks for a Kafka name that is not what its topic's name becomes.
func FuzzFromKafkaName(f *testing.F) {
	for _, s := range []string{"orders", "amqp--a-20b", "amqp--a-2db", "amqp---00-ff", "amqp--sha256--" + strings.Repeat("0", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, kafka string) {
		name, err := FromKafkaName(kafka)
		if err != nil {
			var bad *NameError
			if !errors.As(err, &bad) {
				t.Fatalf("%q: an error of type %T", kafka, err)
			}
			return
		}
		if back := KafkaName(name); back != kafka {
			t.Fatalf("%q is the name %q, whose Kafka name is %q", kafka, name, back)
		}
	})
}
