import java.util.*;
import java.util.function.*;
import java.util.stream.*;

/** Something for the compiler: generics, lambdas, records and a little arithmetic. */
public class Shapes {
    sealed interface Shape permits Circle, Box, Group {}

    record Circle(double x, double y, double radius) implements Shape {}

    record Box(double x, double y, double width, double height) implements Shape {}

    record Group(List<Shape> members) implements Shape {}

    static double area(Shape shape) {
        if (shape instanceof Circle c) return Math.PI * c.radius() * c.radius();
        if (shape instanceof Box b) return b.width() * b.height();
        return ((Group) shape).members().stream().mapToDouble(Shapes::area).sum();
    }

    static <K, V extends Comparable<V>> Optional<Map.Entry<K, V>> greatest(Map<K, V> of) {
        return of.entrySet().stream().max(Map.Entry.comparingByValue());
    }

    static Shape make(Random random, int depth) {
        return switch (random.nextInt(depth > 0 ? 3 : 2)) {
            case 0 -> new Circle(random.nextDouble(), random.nextDouble(), random.nextDouble());
            case 1 -> new Box(0, 0, random.nextDouble(), random.nextDouble());
            default -> new Group(Stream.generate(() -> make(random, depth - 1))
                    .limit(random.nextInt(5)).collect(Collectors.toList()));
        };
    }

    public static void main(String[] args) {
        Random random = new Random(4);
        Function<Integer, Shape> maker = depth -> make(random, depth);
        Map<String, Double> areas = IntStream.range(0, 500).boxed().collect(
                Collectors.toMap(i -> "shape " + i, i -> area(maker.apply(i % 5))));
        System.out.println(greatest(areas));
    }
}
