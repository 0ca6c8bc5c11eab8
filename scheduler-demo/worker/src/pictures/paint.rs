//! Paints one picture: ground, clouds, shapes, grain.

use crate::random::Random;

type Colour = [f32; 3];

/// How far a pixel's grain is from what was painted, at most.
const GRAIN: f32 = 26.0;
const SHAPES: std::ops::Range<f32> = 4.0..12.0;

pub fn paint(width: usize, height: usize, random: &mut Random) -> Vec<u8> {
    let ground = Ground::new(random);
    let clouds = [Clouds::new(5, 60.0, random), Clouds::new(23, 35.0, random), Clouds::new(90, 22.0, random)];
    let count = random.between(SHAPES.start, SHAPES.end) as usize;
    let shapes: Vec<Shape> = (0..count).map(|_| Shape::new(random)).collect();
    // Some photographs are smooth, others rough.
    let grain = GRAIN * random.between(0.6, 1.2);
    let mut out = Vec::with_capacity(width * height * 3);
    let longer = width.max(height) as f32;
    for y in 0..height {
        for x in 0..width {
            let (x, y) = (x as f32 / longer, y as f32 / longer);
            let mut colour = ground.colour(x, y);
            for shape in &shapes {
                shape.cover(x, y, &mut colour);
            }
            let light: f32 = clouds.iter().map(|clouds| clouds.at(x, y)).sum();
            let grain = random.signed() * grain;
            out.extend(colour.map(|channel| (channel + light + grain).clamp(0.0, 255.0) as u8));
        }
    }
    out
}

fn colour(random: &mut Random) -> Colour {
    [(); 3].map(|()| random.between(10.0, 245.0))
}

fn mix(one: Colour, other: Colour, share: f32) -> Colour {
    let share = share.clamp(0.0, 1.0);
    std::array::from_fn(|channel| one[channel] + (other[channel] - one[channel]) * share)
}

/// Goes over from one colour to another in some direction.
struct Ground {
    from: Colour,
    to: Colour,
    slope: (f32, f32),
}

impl Ground {
    fn new(random: &mut Random) -> Self {
        Ground { from: colour(random), to: colour(random), slope: (random.signed(), random.signed()) }
    }

    fn colour(&self, x: f32, y: f32) -> Colour {
        mix(self.from, self.to, 0.5 + (x - 0.5) * self.slope.0 + (y - 0.4) * self.slope.1)
    }
}

/// Light and dark on a grid, smooth between its points.
struct Clouds {
    cells: usize,
    points: Vec<f32>,
}

impl Clouds {
    fn new(cells: usize, strength: f32, random: &mut Random) -> Self {
        let mut points = vec![0.0; (cells + 2) * (cells + 2)];
        random.fill(&mut points, strength);
        Clouds { cells, points }
    }

    fn at(&self, x: f32, y: f32) -> f32 {
        let (x, y) = (x * self.cells as f32, y * self.cells as f32);
        let (column, row) = (x as usize, y as usize);
        let (right, down) = (smooth(x - column as f32), smooth(y - row as f32));
        let row_at = |row: usize| {
            let at = row * (self.cells + 2) + column;
            self.points[at] + (self.points[at + 1] - self.points[at]) * right
        };
        let (above, below) = (row_at(row), row_at(row + 1));
        above + (below - above) * down
    }
}

fn smooth(share: f32) -> f32 {
    share * share * (3.0 - 2.0 * share)
}

enum Outline {
    Round,
    Box,
    Diamond,
    /// A ring, or an arch if it leaves the picture.
    Ring,
}

/// Something in front of the ground, striped or plain.
struct Shape {
    outline: Outline,
    centre: (f32, f32),
    half: (f32, f32),
    colours: (Colour, Colour),
    /// Stripes across it, and which way they run.
    stripes: (f32, f32),
}

impl Shape {
    fn new(random: &mut Random) -> Self {
        let outline = match random.next() % 4 {
            0 => Outline::Round,
            1 => Outline::Box,
            2 => Outline::Diamond,
            _ => Outline::Ring,
        };
        Shape {
            outline,
            centre: (random.unit(), random.between(0.0, 0.8)),
            half: (random.between(0.04, 0.3), random.between(0.04, 0.3)),
            colours: (colour(random), colour(random)),
            stripes: (random.signed() * 40.0, random.signed() * 40.0),
        }
    }

    fn cover(&self, x: f32, y: f32, under: &mut Colour) {
        let (across, down) = ((x - self.centre.0) / self.half.0, (y - self.centre.1) / self.half.1);
        let is_inside = match self.outline {
            Outline::Round => across * across + down * down < 1.0,
            Outline::Box => across.abs() < 1.0 && down.abs() < 1.0,
            Outline::Diamond => across.abs() + down.abs() < 1.0,
            Outline::Ring => (0.5..1.0).contains(&(across * across + down * down)),
        };
        if is_inside {
            let along = x * self.stripes.0 + y * self.stripes.1;
            let share = (along - along.floor() - 0.5).abs() * 2.0;
            *under = mix(self.colours.0, self.colours.1, share);
        }
    }
}
