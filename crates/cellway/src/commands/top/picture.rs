//! A frame as SVG, for pages: the characters of a buffer in the terminal's colours, light or dark as the reader's page.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use std::fmt::Write;

/// Of a character: wide, and high.
const CHARACTER: [f64; 2] = [8.0, 17.0];
/// Blank on every side.
const MARGIN: f64 = 12.0;

/// Names of classes with their colour on a light page and on a dark one.
pub(crate) const COLOURS: [(&str, &str, &str); 7] = [
    ("paper", "#ffffff", "#0d1117"),
    ("ink", "#1f2328", "#e6edf3"),
    ("dim", "#59636e", "#9198a1"),
    ("green", "#116329", "#7ee787"),
    ("yellow", "#7d4e00", "#e3b341"),
    ("red", "#b42318", "#ff8a80"),
    ("cyan", "#0a5d72", "#76d7ea"),
];

/// The rules of [`COLOURS`], for a light page and for a dark one; `rule` writes one of a name and a colour.
pub(crate) fn style_sheet(rule: fn(&str, &str) -> String) -> String {
    let light: String = COLOURS.iter().map(|(name, light, _)| rule(name, light)).collect();
    let dark: String = COLOURS.iter().map(|(name, _, dark)| rule(name, dark)).collect();
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// The rule for text and areas.
pub(crate) fn fill(name: &str, colour: &str) -> String {
    format!(".{name}{{fill:{colour}}}")
}

/// Text as it stands in XML; characters that XML does not have are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// How characters look that stand together.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    class: &'static str,
    is_bold: bool,
    is_reversed: bool,
}

fn look(cell: &Cell) -> Look {
    let class = match cell.fg {
        Color::Green => "green",
        Color::Yellow => "yellow",
        Color::Red => "red",
        Color::Cyan => "cyan",
        _ if cell.modifier.contains(Modifier::DIM) => "dim",
        _ => "ink",
    };
    let has = |modifier| cell.modifier.contains(modifier);
    Look { class, is_bold: has(Modifier::BOLD), is_reversed: has(Modifier::REVERSED) }
}

/// The characters of a buffer.
pub(crate) fn svg(buffer: &Buffer, title: &str) -> String {
    let area = buffer.area;
    let [width, height] = [(area.width, CHARACTER[0]), (area.height, CHARACTER[1])]
        .map(|(count, size)| f64::from(count) * size + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\
         <title>{}</title><style>{}</style><rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n",
        escaped(title),
        style_sheet(fill)
    );
    for y in 0..area.height {
        let cells: Vec<&Cell> = (0..area.width).map(|x| &buffer[(area.x + x, area.y + y)]).collect();
        let mut x = 0;
        while x < cells.len() {
            let here = look(cells[x]);
            let n = cells[x..].iter().take_while(|cell| look(cell) == here).count();
            let text: String = cells[x..x + n].iter().map(|cell| cell.symbol()).collect();
            run(&mut svg, [x, usize::from(y)], &text, here);
            x += n;
        }
    }
    svg + "</svg>\n"
}

/// Characters that look alike. Their length is given: the page's font does not move the columns.
fn run(svg: &mut String, [x, y]: [usize; 2], text: &str, look: Look) {
    let left = MARGIN + x as f64 * CHARACTER[0];
    let top = MARGIN + y as f64 * CHARACTER[1];
    let length = |text: &str| text.chars().count() as f64 * CHARACTER[0];
    if look.is_reversed {
        let class = look.class;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>",
            length(text),
            CHARACTER[1]
        );
    }
    let shown = text.trim_end();
    let begin = shown.len() - shown.trim_start().len();
    let shown = shown.trim_start();
    if shown.is_empty() {
        return;
    }
    let class = if look.is_reversed { "paper" } else { look.class };
    let weight = if look.is_bold { " font-weight=\"bold\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text class=\"{class}\"{weight} x=\"{}\" y=\"{}\" textLength=\"{}\" xml:space=\"preserve\">{}</text>",
        left + begin as f64 * CHARACTER[0],
        top + 13.0,
        length(shown),
        escaped(shown)
    );
}
