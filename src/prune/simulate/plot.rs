//! A chart of the size of the context, call by call, with a line for each policy.
//!
//! The font is in the program: a chart looks the same on a machine that has none.

use std::error::Error;
use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

/// Width and height of the image, in pixels.
pub const IMAGE_SIZE: (u32, u32) = (1_200, 700);

/// Colors of the lines, which people with any kind of color vision can tell apart (Okabe and Ito).
const LINE_COLORS: [RGBColor; 4] = [RGBColor(85, 85, 85), RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 158, 115)];
/// Ratio of the chart's height to that of its lines: the legend is above the lines.
const HEADROOM: f64 = 1.3;
const FONT: &str = "sans-serif";

/// The kind of image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// Vectors and text.
    Svg,
    /// Pixels.
    Png,
}

/// A line of the chart.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// Its name in the legend.
    pub name: String,
    /// Number of each call, and tokens.
    pub points: Vec<(usize, u64)>,
}

/// Draws the lines and, if it is not far above them, the size at which the client compacts. Returns the bytes of a file.
///
/// # Errors
/// Those of the drawing crate.
pub fn draw(
    title: &str,
    lines: &[PlotLine],
    threshold: u64,
    format: ImageFormat,
) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_registered = *REGISTERED.get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if !is_registered {
        return Err("the font cannot be read".into());
    }
    match format {
        ImageFormat::Svg => {
            let mut text = String::new();
            chart(&SVGBackend::with_string(&mut text, IMAGE_SIZE).into_drawing_area(), title, lines, threshold)?;
            Ok(text.into_bytes())
        }
        ImageFormat::Png => {
            let mut pixels = vec![0; IMAGE_SIZE.0 as usize * IMAGE_SIZE.1 as usize * 3];
            chart(&BitMapBackend::with_buffer(&mut pixels, IMAGE_SIZE).into_drawing_area(), title, lines, threshold)?;
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, IMAGE_SIZE.0, IMAGE_SIZE.1);
            encoder.set_color(png::ColorType::Rgb);
            encoder.write_header()?.write_image_data(&pixels)?;
            Ok(file)
        }
    }
}

fn chart<B>(
    area: &DrawingArea<B, Shift>,
    title: &str,
    lines: &[PlotLine],
    threshold: u64,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    B: DrawingBackend,
    B::ErrorType: 'static,
{
    let last = lines.iter().flat_map(|line| &line.points).map(|(call, _)| call + 1).max().unwrap_or(1);
    let peak = lines.iter().flat_map(|line| &line.points).map(|(_, tokens)| *tokens).max().unwrap_or(0);
    let shows_threshold = peak >= threshold / 2;
    let top = (if shows_threshold { peak.max(threshold) } else { peak }).max(1) as f64 * HEADROOM;
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 24))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(100)
        .build_cartesian_2d(1.0..(last.max(2) as f64), 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(RGBColor(120, 120, 120))
        .label_style((FONT, 15))
        .axis_desc_style((FONT, 17))
        .x_labels(10)
        .x_desc("call")
        .y_desc("tokens in the context")
        .x_label_formatter(&|call| group_thousands(call.round() as u64))
        .y_label_formatter(&|tokens| group_thousands(tokens.round() as u64))
        .draw()?;
    if shows_threshold {
        let style = RGBColor(170, 170, 170).stroke_width(1);
        let ends = [(1.0, threshold as f64), (last.max(2) as f64, threshold as f64)];
        chart
            .draw_series(LineSeries::new(ends, style))?
            .label("the client compacts here")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 28, y)], style));
    }
    for (line, color) in lines.iter().zip(LINE_COLORS.iter().cycle()) {
        let style = color.stroke_width(2);
        let points = thinned(&line.points).into_iter().map(|(call, tokens)| (call as f64 + 1.0, tokens as f64));
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 28, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(12)
        .legend_area_size(40)
        .label_font((FONT, 16))
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Reduces points to the lowest and highest of each column of pixels, in their order: more cannot be seen.
fn thinned(points: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let columns = IMAGE_SIZE.0 as usize;
    if points.len() <= 2 * columns {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(2 * columns);
    for column in points.chunks(points.len().div_ceil(columns)) {
        let by_size = |at: &usize| column[*at].1;
        let lowest = (0..column.len()).min_by_key(by_size).unwrap_or(0);
        let highest = (0..column.len()).max_by_key(by_size).unwrap_or(0);
        kept.push(column[lowest.min(highest)]);
        if lowest != highest {
            kept.push(column[lowest.max(highest)]);
        }
    }
    kept
}

/// Formats a number with commas between thousands.
pub fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(calls: usize) -> PlotLine {
        PlotLine { name: "none".to_owned(), points: (0..calls).map(|call| (call, 1_000 * call as u64 % 7_000)).collect() }
    }

    #[test]
    fn a_picture_has_title_and_legend() {
        for calls in [0, 1, 2, 50] {
            let svg = String::from_utf8(draw("A title", &[line(calls)], 10_000, ImageFormat::Svg).unwrap()).unwrap();
            assert!(svg.contains("A title") && svg.contains("none") && svg.contains("tokens in the context"), "{svg}");
            let png = draw("A title", &[line(calls)], 10_000, ImageFormat::Png).unwrap();
            assert!(png.starts_with(b"\x89PNG"));
        }
    }

    #[test]
    fn a_long_line_keeps_its_extremes() {
        let mut long = line(20_000);
        long.points[12_345].1 = 1_000_000;
        let kept = thinned(&long.points);
        assert!(kept.len() <= 2 * IMAGE_SIZE.0 as usize);
        assert!(kept.contains(&(12_345, 1_000_000)));
        assert!(kept.is_sorted_by_key(|(call, _)| *call));
    }

    #[test]
    fn thousands() {
        assert_eq!([0, 999, 1_000, 187_000, 1_234_567].map(group_thousands), ["0", "999", "1,000", "187,000", "1,234,567"]);
    }
}
